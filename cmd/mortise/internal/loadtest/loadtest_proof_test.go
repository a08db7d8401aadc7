//go:build proof

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/memredis"
)

// wantEmpty fails the test if a key is on the server.
func wantEmpty(t *testing.T, server *memredis.Server) {
	t.Helper()
	d := server.Driver()
	defer d.Close()
	err := d.(driver.Scanner).Scan(t.Context(), "*", func(keys []string) error {
		if len(keys) > 0 {
			return fmt.Errorf("%q stay behind", keys)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRun(t *testing.T) { canary.Judge(t, runs) }

func runs(t *testing.T, b *canary.Bounds) {
	server := memredis.New()
	defer server.Close()
	var out strings.Builder
	r, err := Run(t.Context(), config(server, &out))
	if starved(b, err) {
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for what, rate := range map[string]float64{"alone": r.Alone.Rate, "own keys": r.Own.Rate, "one key": r.One.Rate, "clients": r.Between.Rate, "held": r.Held.Rate} {
		if rate <= 0 {
			_ = starved(b, fmt.Errorf("%s: %w", what, &NoLockError{Window(time.Second)}))
		}
	}
	if r.Overlaps() != 0 || r.Between.Clients != contenders || r.Waiting.Waiters != Waiters || !strings.HasPrefix(r.Prefix, "test:") || len(r.Prefix) != len("test:12345678:") {
		t.Errorf("%+v, want all loads without an overlap, and a prefix with a random part", r)
	}
	for _, want := range []string{"say this takes about 1s on embedded. Its keys begin with " + r.Prefix, "\n4 locks, 4 goroutines", "\nWhat it means:\n- "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %q", &out, want)
		}
	}
	wantEmpty(t, server)
}

// starved notes a load that did not acquire or renew a single lock, and reports whether that is what err says.
func starved(b *canary.Bounds, err error) bool {
	var none *NoLockError
	is := errors.As(err, &none)
	if is {
		b.Within("a lock: "+err.Error(), none.Within+1, none.Within)
	}
	return is
}

// When its context ends it returns the cause, and leaves nothing behind.
func TestRunIsInterrupted(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, after := range []string{"a round trip", "one lock, one goroutine", "one lock, 4 clients", "locks held"} {
		t.Run(after, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				server := memredis.New()
				defer server.Close()
				var out strings.Builder
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c := config(server, &out)
				print := c.Print
				c.Print = func(format string, args ...any) {
					print(format, args...)
					if strings.Contains(out.String(), after) {
						cancel(interrupted)
					}
				}
				r, err := Run(ctx, c)
				if !starved(b, err) && (!errors.Is(err, interrupted) || r != nil) {
					t.Errorf("report %v, error %v; want none, and why the context has ended", r, err)
				}
				wantEmpty(t, server)
			})
		})
	}
}
