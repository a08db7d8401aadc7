package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestVersionsAreJudged(t *testing.T) {
	for _, test := range []struct {
		product, version string
		want             Severity
	}{
		{"redis", "6.2.19", Warning}, {"redis", "6.2.20", OK}, {"redis", "7.0.15", Warning}, {"redis", "7.2.10", Warning},
		{"redis", "7.2.11", OK}, {"redis", "7.4.6", OK}, {"redis", "8.0.3", Warning}, {"redis", "8.0.4", OK}, {"redis", "8.1.9", Warning},
		{"redis", "8.2.2", OK}, {"redis", "8.3.0", OK}, {"redis", "8.10.1", OK}, {"redis", "9.0.0", OK}, {"redis", "5.0.14", Warning},
		{"valkey", "7.2.10", Warning}, {"valkey", "7.2.11", OK}, {"valkey", "8.0.6", OK}, {"valkey", "8.1.3", Warning},
		{"valkey", "8.1.4", OK}, {"valkey", "9.0.0", OK}, {"valkey", "10.2.0", OK},
		{"redis", "", Unknown}, {"redis", "unstable", Unknown}, {"redis", "255.255.255", OK}, {"redis", "7", Warning},
	} {
		f := judged(test.product, "Redis", test.version)
		if f.Severity != test.want {
			t.Errorf("%s %q is %s, want %s", test.product, test.version, f.Severity, test.want)
		}
		if f.Severity == Warning && (!strings.Contains(f.Found, "CVE-2025-49844") || f.Do == "") {
			t.Errorf("%s %q: %+v", test.product, test.version, f)
		}
	}
}

func TestLibraryOfAConnectedClient(t *testing.T) {
	for line, want := range map[string]string{
		"id=3 addr=127.0.0.1:1 name= lib-name=redisson lib-ver=4.7.0 resp=2": "redisson 4.7.0",
		"id=3 addr=127.0.0.1:1 lib-name=go-redis(,go1.26) lib-ver=":          "go-redis(,go1.26)",
		"id=3 addr=127.0.0.1:1 name=lib-name lib-name= lib-ver=":             "",
		"id=3 addr=127.0.0.1:1 name=x":                                       "",
	} {
		if got := library(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// With many keys, it is told how long it takes to look at all.
func TestManyKeys(t *testing.T) {
	e := &exam{report: &Report{Keys: 5_000_000, Looked: 100_000}}
	f := e.searched(2*time.Second, false)
	if f.Severity != Info || !strings.Contains(f.Found, "takes about 1m40s") || f.Command != "mortise doctor --keys -1" {
		t.Errorf("%+v", f)
	}
	e.report.Looked = e.report.Keys
	if f = e.searched(100*time.Second, true); f.Severity != OK || !strings.Contains(f.Found, "the rest was left out") {
		t.Errorf("%+v", f)
	}
}

func TestWordsForAShell(t *testing.T) {
	for text, want := range map[string]string{
		"job": "job", "order:42": "order:42", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(id)": "'$(id)'", "~app:*": "'~app:*'",
		"a\nb": `$'a\012b'`, "\x1b[2J": `$'\033[2J'`, "\xff": `$'\377'`, "a\u202eb": `$'a\342\200\256b'`, "é": "'é'", "a'\n": `$'a\047\012'`,
	} {
		if got := word(text); got != want {
			t.Errorf("word(%q) = %s, want %s", text, got, want)
		}
	}
	if got := nameArg("-v"); got != "-- -v" {
		t.Errorf("nameArg = %s", got)
	}
}

// A key leads to the name of the lock or semaphore, or to none.
func TestNamesOfKeys(t *testing.T) {
	for key, want := range map[string]string{
		"redisson_lock_queue:{job}": "job", "redisson_lock_queue:{t}:x": "{t}:x", "redisson_lock_queue:job": "", "redisson_lock_queue:": "",
		"redisson_lock_queue:{}": "", "redisson_lock_queue:a{b}": "a{b}",
	} {
		if got := queueName(key); got != want {
			t.Errorf("queueName(%q) = %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{"{job}:timeout": "job", "{t}:x:timeout": "{t}:x", "job:timeout": "", ":timeout": "", "{}:timeout": ""} {
		if got := permitsName(key); got != want {
			t.Errorf("permitsName(%q) = %q, want %q", key, got, want)
		}
	}
}
