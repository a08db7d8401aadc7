//go:build proof

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// A watch sends no more than it says to a server with many keys and many clients, and finds what no
// record tells of.
func TestWatchKeepsToItsLoad(t *testing.T) {
	server := redistest.Single(t)
	server.Must(t, "DEBUG", "POPULATE", "200000", "key", "32")
	const clients = 300
	for i := range clients {
		id := "8f1c2b3a-0000-8000-8000-" + strings.Repeat("0", 9) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + string(rune('0'+i%10))
		server.Must(t, "HSET", "mortise:client:{"+id+"}", "body", `{"host":"api","pid":1,"started":1}`, "at", "9999999999999", "edition", "1")
		server.Must(t, "ZADD", "mortise:clients:{all}", "9999999999999", id)
	}
	server.Must(t, "HSET", "java", "8f1c2b3a-0000-4000-8000-000000000001:77", "1")
	const load = 1000
	before, start := commandCalls(t, server), time.Now()
	w, out := beginWatch(t, server, server.Addr(), "--json", "--load", "1000", "--for", "60s", "-n", "1")
	w.wantStatus(t, 0)
	took := time.Since(start).Seconds()
	sent := commandCalls(t, server) - before
	if most := int(load*took) + load; sent > most { // as many may be sent at once as in a second
		t.Errorf("%d commands in %.1f s, want at most %d", sent, took, most)
	}
	seen := parseWatch(t, out.text())
	// A script that the server does not know yet is sent twice, in a batch up to 64 times.
	if s := seen.summary; int64(sent)-s.Commands > 80 || s.Commands-int64(sent) > 20 {
		t.Errorf("it says %d commands, the server counts %d", s.Commands, sent)
	}
	if s := seen.summary; s.Looks < 3 || s.Looks > 4*int(took)+4 || s.Search == nil || s.Search.Keys < 5000 {
		t.Errorf("the summary is %+v", s)
	}
	if len(seen.events) != 1 || *seen.events[0].Lock != "java" {
		t.Errorf("it tells %+v, want that java is held", seen.events)
	}
}

// A load that is too small for the clients makes a watch look less often, and it says so.
func TestWatchSlowsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for i := range 60 {
		id := "8f1c2b3a-0000-8000-8000-0000000000" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		server.Must(t, "HSET", "mortise:client:{"+id+"}", "body", `{"host":"api","pid":1,"started":1}`, "at", "9999999999999", "edition", "1")
		server.Must(t, "ZADD", "mortise:clients:{all}", "9999999999999", id)
	}
	before, start := commandCalls(t, server), time.Now()
	w, out := beginWatch(t, server, server.Addr(), "job", "--json", "--load", "10", "--for", "15s")
	w.wantStatus(t, 0)
	// One look may be ahead of its time; its scripts are sent twice, as the server does not know them.
	if sent, most := commandCalls(t, server)-before, int(10*time.Since(start).Seconds())+10+2*64; sent > most {
		t.Errorf("%d commands, want at most %d", sent, most)
	}
	seen := parseWatch(t, out.text())
	if len(seen.notes) == 0 || !strings.Contains(seen.notes[0].Message, "looking every") || !strings.Contains(seen.notes[0].Message, "--load") {
		t.Errorf("its notes are %+v", seen.notes)
	}
	if seen.summary.Longest < 3000 || seen.summary.Unseen < seen.summary.Longest {
		t.Errorf("the summary is %+v", seen.summary)
	}
}
