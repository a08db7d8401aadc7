package server

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// kindUses does all that a kind can do.
var kindUses = map[string]func(t *testing.T, c, other *mortise.Client, asked *faults, wrap func() driver.Driver){
	"Lock": func(t *testing.T, c, other *mortise.Client, asked *faults, _ func() driver.Driver) {
		lockUsesItsRights(t, c, other, asked, "job")
	},
	"RWLock": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		rwUsesItsRights(t, c, other, "job")
	},
	"FairLock": func(t *testing.T, c, other *mortise.Client, asked *faults, _ func() driver.Driver) {
		fairUsesItsRights(t, other, c, asked, "job")
	},
	"FencedLock": func(t *testing.T, c, _ *mortise.Client, _ *faults, wrap func() driver.Driver) {
		fencedUsesItsRights(t, c, wrap, "app:", "job")
	},
	"GroupLock": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		groupUsesItsRights(t, c, other, "job")
	},
	"Election": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		electionUsesItsRights(t, c, other, "job")
	},
	"Barrier": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		barriersUseTheirRights(t, c, other, "job")
	},
	"PermitSemaphore": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		permitsUseTheirRights(t, c, other, "job")
	},
	"Semaphore": func(t *testing.T, c, other *mortise.Client, _ *faults, _ func() driver.Driver) {
		numbersUseTheirRights(t, c, other, "job")
	},
}

// documentedParts returns the parts of rules that docs/protocol.md names for each kind.
func documentedParts(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1) {
		for _, kind := range strings.Split(row[1], ",") {
			parts[strings.Trim(kind, " `")] = strings.Fields(strings.ReplaceAll(row[2], `\|`, "|")) // as tables need it
		}
	}
	return parts
}

// The rights that docs/protocol.md names for a kind are enough for all that it does: the server
// writes no refusal to its log. That a script fails without a right, and changes nothing, is tested
// beside the scripts.
func TestRealRightsOfEachKind(t *testing.T) {
	parts := documentedParts(t)
	for kind, use := range kindUses {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if len(parts[kind]) == 0 {
				t.Fatal("docs/protocol.md does not name its rights")
			}
			s := redistest.Single(t)
			rules := slices.Concat([]string{"ACL", "SETUSER"}, parts["every kind"], parts[kind], parts["Inspect"])
			s.Must(t, redistest.Rules(t, rules...)...)
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "SECRET", DisableIdentity: true})
			t.Cleanup(func() { rdb.Close() })
			wrap := func() driver.Driver { return goredis.Wrap(rdb) }
			asked := &faults{Driver: wrap()}
			c := mortise.New(asked, &mortise.Options{Prefix: "app:"})
			defer c.Close()
			other := mortise.New(wrap(), &mortise.Options{Prefix: "app:"})
			defer other.Close()
			use(t, c, other, asked, wrap)
			for _, entry := range s.Must(t, "ACL", "LOG").([]any) {
				// What the client library says about itself is refused as "client" by Redis 6.2.
				if !slices.Contains(entry.([]any), any("client")) {
					t.Errorf("refused: %v", entry)
				}
			}
		})
	}
}
