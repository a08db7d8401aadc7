package rig

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

func TestAClusterIsSeenAsOneServer(t *testing.T) {
	server, err := StartCluster(3)(false)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(server.Addr(), ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before, err := server.Usage()
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 1<<20)
	for _, key := range []string{"a", "b", "c"} { // one for each shard
		if err := client.Do(context.Background(), client.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := server.Usage()
	if err != nil {
		t.Fatal(err)
	}
	used := after.Since(before)
	if used.Commands["set"] != 3 || used.Memory < 3<<20 || len(used.Shards) != 3 {
		t.Errorf("%v, %v bytes, %v: want three commands and megabytes of three shards", used.Commands, used.Memory, used.Shards)
	}
	if sum := after.Shards[0] + after.Shards[1] + after.Shards[2]; slices.Min(after.Shards) <= 0 || sum != after.CPU {
		t.Errorf("CPU of shards %v, of all %v", after.Shards, after.CPU)
	}
	for _, s := range server.(cluster) {
		size, err := s.admin.Do("DBSIZE")
		if err != nil || size != int64(1) {
			t.Errorf("a shard has %v keys, %v; want one", size, err)
		}
	}
}

func TestAClusterThatCannotStartLeavesNothing(t *testing.T) {
	t.Setenv("REDIS_SERVER_BIN", "/nowhere/redis-server")
	if s, err := StartCluster(3)(false); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v, %v: want an error", s, err)
	}
}
