package goals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A client with very many leases that listens looks at all of them when Redis has restarted, a few at a time.
func TestRestartWithManyLeases(t *testing.T) {
	for driver := range dialers {
		t.Run(driver, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { restartWithManyLeases(t, b, driver) })
		})
	}
}

func restartWithManyLeases(t *testing.T, b *canary.Bounds, driver string) {
	locks := times(1000, 100_000)
	s := redistest.Single(t)
	var heard, known atomic.Int64 // in ns since the epoch: when it heard again, and when the last context ended
	c := mortise.New(dialers[driver](t, s.Addr()), &mortise.Options{Observer: mortise.ObserverFunc(func(e mortise.Event) {
		if e.Type == mortise.EventGap {
			heard.CompareAndSwap(0, time.Now().UnixNano())
		}
	})})
	defer c.Close()
	other := mortise.New(dialers[driver](t, s.Addr()), nil)
	defer other.Close()
	if _, _, err := other.Lock("busy").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _, _ = c.Lock("busy").Lock(ctx) }() // so that it listens
	ends := make([]context.Context, locks)
	inParallel(locks, func(i int) {
		var err error
		if _, ends[i], err = c.Lock(fmt.Sprint("job ", i)).TryLock(t.Context()); err != nil {
			t.Error(err)
			return
		}
		context.AfterFunc(ends[i], func() { known.Store(time.Now().UnixNano()) })
	})
	redistest.Eventually(t, "it listens", func() error {
		if n := c.Stats().Waiting; n != 1 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	if t.Failed() {
		return
	}
	heard.Store(0)
	s.Restart(t)
	for _, end := range ends {
		<-end.Done()
		if err := context.Cause(end); !errors.Is(err, mortise.ErrLost) || !strings.Contains(err.Error(), "Redis has restarted") {
			t.Fatalf("lost with %v, want ErrLost and a word of a restart", err)
		}
	}
	last := time.Unix(0, known.Load())
	if at := heard.Load(); at != 0 {
		b.Within("the last loss after the subscription is confirmed", last.Sub(time.Unix(0, at)), 3*time.Second)
	}
}
