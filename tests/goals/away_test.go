package goals

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Redis stands still for most of a lease, and is quick again: a client with very many locks loses none that has a
// second left, and the contexts of the others end in time.
func TestRedisThatWasAway(t *testing.T) {
	for name := range dialers {
		for _, away := range []time.Duration{15 * time.Second, 19 * time.Second, 25 * time.Second} {
			t.Run(fmt.Sprint(name, " ", away), func(t *testing.T) {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) { redisThatWasAway(t, b, name, away) })
			})
			if !*deep {
				break
			}
		}
	}
}

// keeping is a lock of very many.
type keeping struct {
	hold  *mortise.Hold
	ctx   context.Context
	left  time.Duration // when Redis came back
	until time.Time
	ended atomic.Int64 // when its context did, in ns since the epoch
}

func redisThatWasAway(t *testing.T, b *canary.Bounds, driver string, away time.Duration) {
	locks := times(10_000, 100_000)
	s := redistest.Single(t)
	c := mortise.New(dialers[driver](t, s.Addr()), nil)
	defer c.Close()
	held := make([]*keeping, locks)
	inParallel(locks, func(i int) {
		hold, ctx, err := c.Lock(fmt.Sprint("job ", i)).Lock(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		k := &keeping{hold: hold, ctx: ctx}
		context.AfterFunc(ctx, func() { k.ended.Store(time.Now().UnixNano()) })
		held[i] = k
	})
	if t.Failed() {
		return
	}
	time.Sleep(11 * time.Second) // until each was renewed, anywhere in the period

	s.Pause(t)
	time.Sleep(away)
	for _, k := range held {
		k.until = k.hold.Until()
		k.left = time.Until(k.until)
	}
	s.Resume(t)
	time.Sleep(20 * time.Second)

	brief, lost, late := 0, 0, time.Duration(0)
	for _, k := range held {
		if k.left < time.Second {
			brief++
		}
		if k.hold.Valid() {
			continue
		}
		<-k.ctx.Done()
		if lost++; k.left >= time.Second {
			t.Errorf("a lock was lost that had %v left: %v", k.left, context.Cause(k.ctx))
			if lost-brief > 10 {
				break
			}
		}
		if at := k.ended.Load(); at != 0 {
			late = max(late, time.Unix(0, at).Sub(k.until))
		}
	}
	t.Logf("%d of %d were lost, %d had less than a second left; the last context ended %v late", lost, locks, brief, late)
	b.Within("the end of a context", late, time.Second)
}

// inParallel calls f for the numbers up to n, in a few goroutines.
func inParallel(n int, f func(i int)) {
	const few = 50
	var all sync.WaitGroup
	for part := range few {
		all.Go(func() {
			for i := part; i < n; i += few {
				f(i)
			}
		})
	}
	all.Wait()
}
