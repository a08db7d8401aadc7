package mortise_test

import (
	"errors"
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

// documentedRights returns the ACL command of docs/protocol.md, and what it
// says that a cluster needs besides.
func documentedRights(t *testing.T) (command, cluster []string) {
	t.Helper()
	text, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(ACL SETUSER .*?)```").FindSubmatch(text)
	more := regexp.MustCompile("A cluster needs `([^`]+)` besides").FindSubmatch(text)
	if block == nil || more == nil {
		t.Fatal("docs/protocol.md does not show the rights")
	}
	return strings.Fields(string(block[1])), strings.Fields(string(more[1]))
}

// The rights that docs/protocol.md names are enough for all that a lock does.
func TestRealDocumentedRightsSuffice(t *testing.T) {
	command, _ := documentedRights(t)
	s := redistest.Single(t)
	s.Must(t, command...)

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
		t.Run(name, func(t *testing.T) { usesItsRights(t, wrap, "app:job") })
	}
}

func TestRealDocumentedRightsSufficeOnACluster(t *testing.T) {
	command, more := documentedRights(t)
	set := redistest.Cluster(t, 0)
	for _, master := range set.Masters {
		master.Must(t, append(command, more...)...)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), Username: "locks", Password: "SECRET"})
	t.Cleanup(func() { rdb.Close() })
	rc, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: set.Addrs(), Username: "locks", Password: "SECRET", DisableCache: true,
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
			for _, master := range set.Masters {
				usesItsRights(t, wrap, set.KeyOn(t, master, "app:"+name))
			}
		})
	}
}

// usesItsRights does all that a lock can do.
func usesItsRights(t *testing.T, wrap func() driver.Driver, name string) {
	t.Helper()
	asked := &faults{Driver: wrap()}
	c := mortise.New(asked, nil)
	defer c.Close()
	other := mortise.New(wrap(), nil)
	defer other.Close()
	k := c.Lock(name)
	hold, ctx := mustLock(t, k, t.Context())
	inner, _ := mustLock(t, k, ctx)
	wantState(t, k, hold.Owner(), 2)
	mustUnlock(t, inner)
	mustUnlock(t, hold)
	wakes(t, other.Lock(name), k, asked, true)
	hold, _ = mustLock(t, k, t.Context())
	if by, err := k.ForceUnlock(t.Context()); err != nil || by == nil || by.Owner != hold.Owner() {
		t.Errorf("ForceUnlock = %v, %v", by, err)
	}
	rwUsesItsRights(t, c, other, name+":rw")
	fairUsesItsRights(t, other, c, asked, name+":fair")
	fencedUsesItsRights(t, c, wrap, name+":fenced")
	groupUsesItsRights(t, c, other, name+":group")
	electionUsesItsRights(t, c, other, name+":election")
	barriersUseTheirRights(t, c, other, name)
	permitsUseTheirRights(t, c, other, name+":permits")
	numbersUseTheirRights(t, c, other, name+":number")
	if _, _, err := c.Lock("foreign").TryLock(t.Context()); !errors.Is(err, mortise.ErrDenied) {
		t.Errorf("TryLock outside the allowed names: %v, want ErrDenied", err)
	}
}
