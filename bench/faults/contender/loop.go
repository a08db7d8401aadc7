package contender

import (
	"context"
	"sync"
	"time"
)

// loop renews a lock every third of its lease, as a caller must where the library does not. A
// refusal ends it, and so does the end of the lease without a renewal.
type loop struct {
	cancel context.CancelFunc
	lost   chan struct{}
	ended  sync.WaitGroup
}

// renewing starts a loop. Renew reports false if the lock is lost for certain; an error is tried
// again at the next time.
func renewing(lease time.Duration, renew func(context.Context) (bool, error)) *loop {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loop{cancel: cancel, lost: make(chan struct{})}
	l.ended.Go(func() {
		tick := time.NewTicker(lease / 3)
		defer tick.Stop()
		for until := time.Now().Add(lease); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			held, err := renew(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil && held:
				until = asked.Add(lease)
			case err == nil || time.Now().After(until):
				close(l.lost)
				return
			}
		}
	})
	return l
}

// stop ends the loop and returns when it has ended.
func (l *loop) stop() {
	l.cancel()
	l.ended.Wait()
}
