package torture

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

// The recorder shows what a server did about one name in a span of time, also after its
// connection was killed, and what a script did.
func TestRecorder(t *testing.T) {
	s := redistest.Single(t)
	c := record(t, []*redistest.Server{s})
	run := func(name string) span {
		t.Helper()
		from := torture.Now()
		for attempt := range 50 {
			s.Must(t, "EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", name, strconv.Itoa(attempt))
			shown := fmt.Sprintf(`lua] "set" %q "%d"`, name, attempt)
			// Only the last command ends the loop: those before it have been shown then, and none comes later.
			if soon(200*time.Millisecond, func() error {
				if !strings.Contains(c.show(name, span{from, torture.Now()}, 0), shown) {
					return errNotYet
				}
				return nil
			}) == nil {
				return span{from, torture.Now()}
			}
		}
		t.Fatalf("the recorder has not seen %s: %s", name, c.show(name, span{0, torture.Now()}, 0))
		return span{}
	}
	first := run("first")
	if text := c.show("second", first, 0); !strings.Contains(text, "no server has run a command about second") {
		t.Errorf("of a name that was not used it shows %s", text)
	}
	s.Must(t, "CLIENT", "KILL", "TYPE", "normal")
	second := run("second")
	if text := c.show("first", second, 0); !strings.Contains(text, "no server") {
		t.Errorf("of the time after it, it shows %s", text)
	}
	if text := c.show("first", second, time.Duration(second.from-first.from)); !strings.Contains(text, "first") {
		t.Errorf("of the lease before, it shows %s", text)
	}
	for range 2 * recordMost {
		c.note(s.Addr(), "x")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.servers[s.Addr()]); n > recordMost {
		t.Errorf("it keeps %d commands, want %d at most", n, recordMost)
	}
}
