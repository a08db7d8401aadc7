package redistest

import (
	"slices"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]Version{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1\n": {Major: 7, Text: "Redis 7.0.15"},
		"Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64 build=1\n":           {Major: 6, Minor: 2, Text: "Redis 6.2.14"},
		"Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1\n":           {Valkey: true, Major: 9, Minor: 1, Text: "Valkey 9.1.2"},
	} {
		if got, err := parseVersion(line); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
	if v, err := parseVersion("redis-cli 7.0.15\n"); err == nil {
		t.Errorf("redis-cli is %+v", v)
	}
	v := Version{Major: 7}
	if v.AtLeast(7, 1) || !v.AtLeast(7, 0) || !v.AtLeast(6, 2) || v.AtLeast(8, 0) {
		t.Errorf("%+v is not ordered", v)
	}
}

func TestRulesOfOlderServers(t *testing.T) {
	rules := []string{"~*", "&a", "&b", "+publish", "+spublish", "+cluster|shards"}
	for v, want := range map[Version][]string{
		{Major: 7}:           rules,
		{Major: 6, Minor: 2}: {"~*", "resetchannels", "&a", "&b", "+publish"},
		{Major: 6}:           {"~*", "+publish"},
	} {
		if got := v.rules(rules); !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", v, got, want)
		}
	}
}
