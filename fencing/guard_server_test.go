//go:build server

package fencing_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestRealGuardWithoutARight(t *testing.T) {
	s := redistest.Single(t)
	s.Must(t, "ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-set")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "u", Password: "p"})
	defer rdb.Close()
	g := fencing.NewGuard(goredis.Wrap(rdb))
	defer g.Close()
	if err := g.HSet(t.Context(), "h", "f", "v", 1); !errors.Is(err, mortise.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
	if n := s.Int(t, "EXISTS", "h"); n != 0 {
		t.Error("it was written without a fence")
	}
}

func TestRealGuardOnACluster(t *testing.T) {
	set := redistest.Cluster(t, 0)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs()})
	defer rdb.Close()
	g := fencing.NewGuard(goredis.Wrap(rdb))
	defer g.Close()
	for i := range int64(20) {
		key := fmt.Sprint("key", i)
		must(t, g.Set(t.Context(), key, "v", 2))
		wantStale(t, g.Set(t.Context(), key, "late", 1), 1, 2)
	}
	if _, err := g.Run(t.Context(), "{a}", 1, appendLog, []string{"{b}"}, "x"); err == nil {
		t.Error("a key in another slot was written")
	}
}
