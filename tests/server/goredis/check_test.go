package goredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestSubscriptionChecksAreFew: subscribers are counted once, as long as the
// client uses the same connections or the server refuses it, and after each
// change.
func TestSubscriptionChecksAreFew(t *testing.T) {
	for name, denied := range map[string]bool{"allowed": false, "denied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			field := "calls"
			if denied {
				server.Must(t, "ACL", "SETUSER", "default", "-pubsub")
				field = "rejected_calls"
			}
			counted := func() int { return countings(t, server, denied) }
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
			d := wrap(t, rdb)
			sink := newEvents()
			sub := d.Subscriber(sink)
			sub.Subscribe("ch", false)
			next(t, "confirmation", sink.subscribed)
			script := driver.NewScript("one", "return 1")
			ask := func() {
				for range 30 {
					if _, err := d.Eval(t.Context(), driver.Call{Script: script, Keys: []string{"k"}}); err != nil {
						t.Error(err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			}
			ask()
			if n := counted(); n < 1 || n > 2 { // the first may have opened a connection
				t.Errorf("%s = %d after 3 s, want 1 or 2", field, n)
			}
			before := counted()
			server.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(100 * time.Millisecond)
			ask()
			if n := counted() - before; denied && n != 0 || !denied && (n < 1 || n > 2) {
				t.Errorf("%s rose by %d after connections were closed", field, n)
			}
			if n := len(sink.subscribed); n != 0 {
				t.Errorf("the connection was replaced %d times, want 0", n)
			}
			server.Must(t, "PUBLISH", "ch", "hello")
			if got := next(t, "message", sink.messages); got != "ch: hello" {
				t.Errorf("message: %q", got)
			}
		})
	}
}

// countings returns how often a server has counted subscribers, or refused to.
func countings(t *testing.T, server *redistest.Server, denied bool) (n int) {
	t.Helper()
	stat, err := server.Info("commandstats", "cmdstat_pubsub|numsub")
	if err != nil {
		t.Fatal(err)
	}
	format := "calls=%d,"
	if denied {
		format = "calls=0,usec=0,usec_per_call=0.00,rejected_calls=%d,"
	}
	_, _ = fmt.Sscanf(stat, format, &n) // 0 if it is not there
	return n
}
