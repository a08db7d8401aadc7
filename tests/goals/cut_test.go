package goals

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// One client waits for very many names when its subscription is cut: it listens to all of them again soon, and a lock
// that is released meanwhile is not missed for long.
func TestManyNamesWhoseSubscriptionIsCut(t *testing.T) {
	for name := range dialers {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { manyNamesAfterACut(t, b, name) })
		})
	}
}

func manyNamesAfterACut(t *testing.T, b *canary.Bounds, driver string) {
	names, released := times(2000, 20_000), times(20, 100)
	s := redistest.Single(t)
	holder := mortise.New(dialers["rueidis"](t, s.Addr()), nil)
	defer holder.Close()
	waiter := mortise.New(dialers[driver](t, s.Addr()), nil)
	defer waiter.Close()
	held := make([]*mortise.Hold, names)
	inParallel(names, func(i int) {
		hold, _, err := holder.Lock(fmt.Sprint("job ", i)).With(mortise.LockOptions{TTL: 10 * time.Minute}).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		held[i] = hold
	})
	if t.Failed() {
		return
	}
	got, giveUp := waitForAll(t, waiter, names)
	defer giveUp()
	defer func() {
		if t.Failed() { // many goroutines, but few stacks
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Log(stacks.String())
		}
	}()
	listening := func(to int) func() error {
		return func() error {
			n, err := s.Info("stats", "pubsub_channels")
			if channels, _ := strconv.Atoi(n); err == nil && channels < to {
				err = fmt.Errorf("%d channels", channels)
			}
			return err
		}
	}
	redistest.Eventually(t, "all are listened to", listening(names))
	time.Sleep(2 * time.Second)

	if n := s.Int(t, "CLIENT", "KILL", "TYPE", "pubsub"); n == 0 {
		t.Fatal("there was no subscription to cut")
	}
	cut := time.Now()
	var slowest time.Duration
	for i := range released {
		n := i * (names / released)
		asked := time.Now()
		if err := held[n].Unlock(); err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-got[n]:
			slowest = max(slowest, at.Sub(asked))
		case <-time.After(time.Minute):
			t.Fatal("a lock that was released stays free")
		}
	}
	t.Logf("%d names, %d released in %v after the cut: the slowest was acquired after %v", names, released, time.Since(cut), slowest)
	redistest.Eventually(t, "all that are waited for are listened to again", listening(names-released))
	b.Within("a lock that is released after the cut", slowest, 3*time.Second)
}

// waitForAll has a goroutine of a client wait for each of the names. It returns when each acquired its lock, and what ends
// the waits.
func waitForAll(t *testing.T, waiter *mortise.Client, names int) (got []chan time.Time, giveUp func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	got = make([]chan time.Time, names)
	for i := range got {
		got[i] = make(chan time.Time, 1)
		waiting.Go(func() {
			hold, _, err := waiter.Lock(fmt.Sprint("job ", i)).Lock(ctx)
			if err != nil {
				return
			}
			got[i] <- time.Now()
			_ = hold.Unlock()
		})
	}
	return got, func() {
		cancel()
		waiting.Wait()
	}
}
