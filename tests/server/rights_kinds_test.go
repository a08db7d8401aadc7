package server

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// rightful are clients with the documented rights: asked is the driver of c.
type rightful struct {
	c, other *mortise.Client
	asked    *faults
	wrap     func() driver.Driver
	prefix   string
	bounds   *canary.Bounds // judges how soon one is woken
}

// kindUses does all that a kind can do.
var kindUses = map[string]func(t *testing.T, r rightful, name string){
	"Lock": func(t *testing.T, r rightful, name string) {
		lockUsesItsRights(t, r.bounds, r.c, r.other, r.asked, name)
		recordsUseTheirRights(t, r.c, r.other, name)
	},
	"MultiLock": func(t *testing.T, r rightful, name string) { waitsWithItsRights(t, r, "MultiLock", name) },
	"Redlock":   func(t *testing.T, r rightful, name string) { waitsWithItsRights(t, r, "Redlock", name) },
	"RWLock":    func(t *testing.T, r rightful, name string) { rwUsesItsRights(t, r.c, r.other, name) },
	"FairLock": func(t *testing.T, r rightful, name string) {
		fairUsesItsRights(t, r.bounds, r.other, r.c, r.asked, name)
	},
	"FencedLock": func(t *testing.T, r rightful, name string) { fencedUsesItsRights(t, r.c, r.wrap, r.prefix, name) },
	"GroupLock":  func(t *testing.T, r rightful, name string) { groupUsesItsRights(t, r.c, r.other, name) },
	"Election":   func(t *testing.T, r rightful, name string) { electionUsesItsRights(t, r.c, r.other, name) },
	"Barrier":    func(t *testing.T, r rightful, name string) { barriersUseTheirRights(t, r.c, r.other, name) },
	"PermitSemaphore": func(t *testing.T, r rightful, name string) {
		permitsUseTheirRights(t, r.c, r.other, name)
	},
	"Semaphore": func(t *testing.T, r rightful, name string) { numbersUseTheirRights(t, r.c, r.other, name) },
}

// waitsWithItsRights acquires, waits for, and releases a lock of that kind.
func waitsWithItsRights(t *testing.T, r rightful, kind, name string) {
	t.Helper()
	wait, free := eachBlocked[kind](t, r.other, r.c, name)
	got := waitAside(t, wait)
	redistest.Eventually(t, "the other one waits", func() error {
		if r.asked.Answered("lock_acquire")+r.asked.Answered("multi_acquire") == 0 {
			return errors.New("it has not asked")
		}
		return nil
	})
	free()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// documentedLines returns the commands of docs/protocol.md that give the rights of each kind, word by
// word, by what stands before them.
func documentedLines(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for _, block := range regexp.MustCompile("(?m)^([^\n]+):\n\n```\n(ACL SETUSER [^\n]+)\n```$").FindAllStringSubmatch(string(text), -1) {
		for _, kind := range strings.Split(block[1], ",") {
			lines[strings.Trim(kind, " `")] = strings.Fields(block[2])
		}
	}
	return lines
}

// documentedLine returns the command for a kind, or for what is said to need more.
func documentedLine(t *testing.T, kind string) []string {
	t.Helper()
	line := documentedLines(t)[kind]
	if len(line) == 0 {
		t.Fatalf("docs/protocol.md has no line for %s", kind)
	}
	return redistest.Rules(t, line...)
}

// documentedUnprefixed returns the rights that clients without a prefix need for their records.
func documentedUnprefixed(t *testing.T) []string {
	t.Helper()
	return documentedSentence(t, "it needs `([^`]+)` instead")
}

// documentedSentence returns the rights that docs/protocol.md names in a sentence.
func documentedSentence(t *testing.T, form string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(form).FindSubmatch(text)
	if found == nil {
		t.Fatalf("docs/protocol.md does not say %s", form)
	}
	return strings.Fields(string(found[1]))
}

// The line of docs/protocol.md for a kind is enough for all that it does, whatever braces
// are in the prefix and the name: the server writes no refusal to its log. That a script fails without
// a right, and changes nothing, is tested next to the scripts.
func TestRealRightsOfEachKind(t *testing.T) {
	for kind, use := range kindUses {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Single(t)
			lines := [][]string{documentedLine(t, kind), documentedLine(t, "Inspect"), documentedLine(t, "Records of clients")}
			for _, n := range []struct{ prefix, name, instead string }{
				{"app:", "job", "app:"}, {"app:", "{order}:42", "app:"}, {"", "{app:1}:job", "app:"}, {"{app}:", "job", "{app}:"},
			} {
				trial := func(t *testing.T, b *canary.Bounds) {
					s.Must(t, "ACL", "LOG", "RESET")
					for _, line := range lines {
						s.Must(t, strings.Fields(strings.ReplaceAll(strings.Join(line, " "), "app:", n.instead))...)
					}
					if n.prefix == "" {
						s.Must(t, append([]string{"ACL", "SETUSER", "locks"}, redistest.Rules(t, documentedUnprefixed(t)...)...)...)
					}
					r := withRights(t, s, n.prefix)
					r.bounds = b
					use(t, r, n.name)
					for _, entry := range s.Must(t, "ACL", "LOG").([]any) {
						// What the client library says about itself is refused as "client" by Redis 6.2.
						if !slices.Contains(entry.([]any), any("client")) {
							t.Errorf("refused: %v", entry)
						}
					}
				}
				t.Run(n.prefix+n.name, func(t *testing.T) { canary.Judge(t, trial) })
			}
		})
	}
}

// withRights are two clients of the documented user.
func withRights(t *testing.T, s *redistest.Server, prefix string) rightful {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "SECRET", DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	wrap := func() driver.Driver { return goredis.Wrap(rdb) }
	asked := &faults{Driver: wrap()}
	options := &mortise.Options{Prefix: prefix, History: 10}
	c, other := mortise.New(asked, options), mortise.New(wrap(), options)
	t.Cleanup(func() { c.Close() })
	t.Cleanup(func() { other.Close() })
	return rightful{c: c, other: other, asked: asked, wrap: wrap, prefix: prefix}
}

// A client that has no right to the turns of its lock is told so when it releases the lock, and the
// lock is free.
func TestRealReleaseWithoutTheRightToTheTurns(t *testing.T) {
	s := redistest.Single(t)
	s.Must(t, redistest.Rules(t, "ACL", "SETUSER", "locks", "on", ">SECRET", "resetkeys", "~app:*", "~redisson_lock_token:*", "&*", "+@all")...)
	r := withRights(t, s, "app:")
	for kind, k := range map[string]taker{
		"Lock": r.c.Lock("lock"), "FencedLock": r.c.FencedLock("fenced"), "Redlock": mortise.NewRedlock("red", r.c),
		"MultiLock": mortise.NewMultiLock(r.c.Lock("{order}:1"), r.c.Lock("{order}:2")),
	} {
		hold, _, err := k.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrDenied) {
			t.Errorf("Unlock of a %s: %v, want ErrDenied", kind, err)
		}
		if again, _, err := k.TryLock(t.Context()); err != nil {
			t.Errorf("a %s is not free: %v", kind, err)
		} else {
			_ = again.Unlock()
		}
	}
}
