//go:build server

package connect

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestOpenSingle(t *testing.T) {
	socket := filepath.Join(shortDir(t), "redis.sock")
	s := redistest.Single(t, "--requirepass", "p@ss/word", "--unixsocket", socket)
	s.Must(t, redistest.Rules(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")...)
	open(t, "redis://:p%40ss%2Fword@"+s.Addr()+"/3")
	if got := s.Str(t, "CLIENT", "LIST", "TYPE", "normal"); strings.Count(got, "name=mortise ") != 1 || !strings.Contains(got, " db=3 ") {
		t.Errorf("want one connection, named mortise, to database 3:\n%s", got)
	}
	open(t, "valkey://app:secret@"+s.Addr())
	open(t, "unix://app:secret@"+socket+"?db=1&client_name=by-socket")
	if got := s.Str(t, "CLIENT", "LIST", "TYPE", "normal"); !strings.Contains(got, "name=by-socket ") {
		t.Errorf("no connection by the socket:\n%s", got)
	}
}

// shortDir returns a directory for sockets: t.TempDir may exceed the limit of their paths.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestOpenSentinel(t *testing.T) {
	set := redistest.Sentinel(t, 1, "--requirepass", "secret")
	d := open(t, "redis-sentinel://:secret@"+strings.Join(set.Addrs(), ",")+"/2?master="+redistest.SentinelName)
	promoted := set.Failover(t)
	redistest.Eventually(t, "the driver works with the new master", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Eval(ctx, driver.Call{Script: driver.NewScript("mark", `return redis.call('SET', KEYS[1], 'x')`), Keys: []string{"mark"}})
		return err
	})
	promoted.Must(t, "SELECT", "2")
	if got := promoted.Str(t, "GET", "mark"); got != "x" {
		t.Errorf("database 2 of the new master has mark = %q", got)
	}
}

func TestOpenCluster(t *testing.T) {
	c := redistest.Cluster(t, 0)
	for _, url := range []string{
		"redis+cluster://" + c.Masters[0].Addr() + "," + c.Masters[1].Addr(),
		"redis+cluster://127.0.0.1:1," + c.Masters[2].Addr(), // one address is wrong
		"redis://" + c.Masters[0].Addr(),                     // detected
	} {
		d := open(t, url)
		if got, err := d.Topology(t.Context()); err != nil || !got.Cluster || got.Sharded != redistest.Sharded(t) {
			t.Errorf("%s: Topology = %+v, %v", url, got, err)
		}
	}
}

// refusedSoon is refused, and judges how long it takes.
func refusedSoon(t *testing.T, b *canary.Bounds, url string, class driver.Class, texts ...string) {
	t.Helper()
	start := time.Now()
	refused(t, t.Context(), url, class, texts...)
	b.Within("a refusal", time.Since(start), 10*time.Second)
}

func TestOpenFails(t *testing.T) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		s := redistest.Single(t, "--requirepass", "right")
		free := redistest.Single(t)
		refusedSoon(t, b, "redis://:s3cret@127.0.0.1:1", driver.NotSent, "127.0.0.1:1", "refused")
		refusedSoon(t, b, "redis+cluster://:s3cret@127.0.0.1:1,127.0.0.1:2", driver.NotSent, "127.0.0.1:1, 127.0.0.1:2")
		refusedSoon(t, b, "redis-sentinel://:s3cret@127.0.0.1:1?master=m&sentinel_password=s3cret", driver.NotSent, "127.0.0.1:1")
		refusedSoon(t, b, "unix://:s3cret@/nowhere/s3/redis.sock", driver.NotSent, "/nowhere/s3/redis.sock")
		refusedSoon(t, b, "redis://:s3cret@"+s.Addr(), driver.Denied, s.Addr(), "WRONGPASS")
		refusedSoon(t, b, "redis://nobody:s3cret@"+s.Addr(), driver.Denied, "WRONGPASS")
		refusedSoon(t, b, "redis://"+s.Addr(), driver.Denied, "NOAUTH")
		refusedSoon(t, b, "rediss://:s3cret@"+s.Addr(), driver.NotSent, s.Addr())
		refusedSoon(t, b, "redis+cluster://"+free.Addr(), driver.Other, "redis://")
		refusedSoon(t, b, "redis://"+free.Addr()+"/99", driver.Other, free.Addr())
		refusedSoon(t, b, "postgres://u:s3cret@h", driver.Other, "redis-sentinel://")
		refusedSoon(t, b, "rediss://h?tls_ca=/nowhere/ca.pem", driver.Other, "/nowhere/ca.pem")
		set := redistest.Sentinel(t, 0)
		refusedSoon(t, b, "redis-sentinel://"+set.Addrs()[0]+"?master=nobody", driver.Other, "No such master")
	})
}
