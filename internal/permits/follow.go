package permits

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Follow calls look at once, after each notification on the channel, and after the time
// that look has returned. It returns nil when look returns a negative time. Otherwise it
// returns the error of look unchanged, or an error when ctx ends or the client is closed.
//
// look must call Operate, which learns how messages travel. missing returns what look last
// found to be missing; it is nil if ctx may end at any time.
func Follow(ctx context.Context, o *lease.Object, channel string, missing func() error, look func() (again time.Duration, err error)) error {
	within := lease.NestedIn(ctx)
	within.WaitUnder(1)
	defer within.WaitUnder(-1)
	f := &follower{Sleeper: waiting.Sleeper{Done: o.Client().Done()}, of: o, channel: channel, look: look}
	err := f.Sleeper.Run(ctx, f)
	if f.listener != nil {
		f.listener.Close()
	}
	if missing == nil && errors.Is(err, outcome.ErrEnded) && ctx.Err() != nil {
		return outcome.ContextError(ctx) // it waited for nothing
	}
	var known error
	if missing != nil {
		known = missing()
	}
	return outcome.WhyEnded(ctx, known, err)
}

// follower is the wait of one call of follow.
type follower struct {
	waiting.Sleeper
	of       *lease.Object
	channel  string
	look     func() (again time.Duration, err error)
	listener *hub.Listener
	heard    int // number of notifications; the first one says that it listens
}

func (f *follower) Step(ctx context.Context, why waiting.Cause) (time.Duration, error) {
	if why == waiting.Notified {
		// Several goroutines of a client may follow the same channel, and any message
		// makes all of them look.
		if f.heard > 0 {
			if d := f.Pace.Share(time.Now(), f.listener.Company()); d > 0 {
				f.of.Client().Sleep(ctx, d)
			}
		}
		f.heard++
	}
	again, err := f.look()
	if err != nil || again < 0 {
		return 0, err
	}
	if f.listener == nil {
		f.listener = f.of.Client().Hub().Listen(f.channel, waiting.SubscribeMode(f.of.Client().Conn()))
		f.Own = f.listener.Hints()
	}
	if err := f.listener.Refused(); err != nil {
		return 0, outcome.Meaning(err)
	}
	return again, lease.ErrNoHold
}
