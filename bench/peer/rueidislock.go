package peer

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/mortise-go/mortise/internal/workload"
)

var rueidislockSystem = &System{
	Name:   "rueidislock",
	Module: "github.com/redis/rueidis",
	Settings: "its defaults: 5 s, renewed every 2.5 s, woken by client-side caching; KeyMajority 1 (one server), " +
		"NoLoopTracking as in its README",
	Open: func(_ context.Context, addr string) (workload.Locker, func(), error) {
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, nil, err
		}
		lock := func(ctx context.Context, key string) (workload.Hold, error) {
			held, cancel, err := locks.WithContext(ctx, key)
			if err != nil {
				return nil, err
			}
			return &rueidislockHold{held, cancel}, nil
		}
		return lockFunc(lock), locks.Close, nil
	},
}

// rueidislockHold is the result of WithContext.
type rueidislockHold struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// Unlock implements [workload.Hold]. Its cancel returns when the lock is released, and does not
// report failure.
func (h *rueidislockHold) Unlock() error { h.cancel(); return nil }

// Valid reports whether the lock is still held.
func (h *rueidislockHold) Valid() bool { return h.ctx.Err() == nil }
