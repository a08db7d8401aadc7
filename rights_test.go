package mortise_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// The rights that docs/protocol.md names are enough for all that a lock does.
func TestRealDocumentedRightsSuffice(t *testing.T) {
	text, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(ACL SETUSER .*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/protocol.md shows no ACL SETUSER")
	}
	s := redistest.Single(t)
	s.Must(t, strings.Fields(string(block[1]))...)

	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "SECRET"})
	t.Cleanup(func() { rdb.Close() })
	rc, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: []string{s.Addr()}, Username: "locks", Password: "SECRET", DisableCache: true,
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	for name, wrap := range map[string]func() driver.Driver{
		"goredis": func() driver.Driver { return goredis.Wrap(rdb) },
		"rueidis": func() driver.Driver { return rueidis.Wrap(rc) },
	} {
		t.Run(name, func(t *testing.T) {
			asked := &faults{Driver: wrap()}
			c := mortise.New(asked, nil)
			defer c.Close()
			other := mortise.New(wrap(), nil)
			defer other.Close()
			k := c.Lock("app:job")
			hold, ctx := mustLock(t, k, t.Context())
			inner, _ := mustLock(t, k, ctx)
			wantState(t, k, hold.Owner(), 2)
			mustUnlock(t, inner)
			mustUnlock(t, hold)
			wakes(t, other.Lock(k.Name()), k, asked)
			hold, _ = mustLock(t, k, t.Context())
			if by, err := k.ForceUnlock(t.Context()); err != nil || by == nil || by.Owner != hold.Owner() {
				t.Errorf("ForceUnlock = %v, %v", by, err)
			}
			if _, _, err := c.Lock("foreign").TryLock(t.Context()); err == nil {
				t.Error("a lock outside the allowed names was granted")
			}
		})
	}
}
