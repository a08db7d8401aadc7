package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// heard keeps the events of some types.
type heard chan mortise.Event

func (h heard) Observe(e mortise.Event) {
	switch e.Type {
	case mortise.EventRenewalFailing, mortise.EventLost, mortise.EventPaused:
		h <- e
	}
}

// next returns the next event of that type.
func (h heard) next(t *testing.T, what mortise.EventType) mortise.Event {
	t.Helper()
	over := time.After(time.Minute)
	for {
		select {
		case e := <-h:
			if e.Type == what {
				return e
			}
		case <-over:
			t.Fatalf("nothing was told of %s", what)
		}
	}
}

// logged has the lines of a log.
type logged chan string

func (l logged) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await waits for a line that has all of the parts.
func (l logged) await(t *testing.T, parts ...string) {
	t.Helper()
	over := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		case <-over:
			t.Fatalf("the log has no line with %q", parts)
		}
	}
}

// A network that swallows the renewals of a lock: its holder is warned by an event, a log line and a
// count while it still has the lock, and told of the loss when it has it no more.
func TestRealRenewalsCutByAProxy(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(addr string, o *mortise.Options) *mortise.Client) {
		const ttl = 6 * time.Second
		p := redistest.NewProxy(t, s.Addr())
		events, log := make(heard, 1000), make(logged, 1000)
		c := dial(p.Addr(), &mortise.Options{TTL: ttl, Observer: events, Logger: slog.New(slog.NewTextHandler(log, nil))})
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		p.Stall(redistest.Requests)
		warned := events.next(t, mortise.EventRenewalFailing)
		if ctx.Err() != nil || !hold.Valid() {
			t.Fatalf("the warning %+v came after the loss", warned)
		}
		if warned.Lock != "job" || warned.Err == nil || warned.Margin > ttl {
			t.Errorf("the warning is %+v, want the lock, an error, and a margin of %v at most", warned, ttl)
		}
		b.Within("the warning, of the time until the loss", ttl-warned.Margin, ttl-time.Second)
		if n := c.Stats().Failed; n == 0 {
			t.Error("no failed renewal was counted when the warning came")
		}
		log.await(t, "level=WARN", "renewals are failing", "job")
		if ctx.Err() != nil {
			t.Error("the warning was logged after the loss")
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("the context ended with %v, want ErrLost", context.Cause(ctx))
		}
		lost := events.next(t, mortise.EventLost)
		if lost.Lock != "job" || !errors.Is(lost.Err, mortise.ErrLost) || lost.Held < 3*time.Second {
			t.Errorf("the loss is told as %+v", lost)
		}
		log.await(t, "level=ERROR", "lock lost", "job")
		p.Flow()
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}
