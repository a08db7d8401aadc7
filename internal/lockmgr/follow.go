package lockmgr

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
)

// Follow calls look at once, after each notification on the channel, and after the time
// that look has returned. It returns nil when look returns a negative time. Otherwise it
// returns the error of look unchanged, or an error when ctx ends or the client is closed.
//
// look must call Operate, which learns how messages travel. missing returns what look last
// found to be missing; it is nil if ctx may end at any time.
func (o *Object) Follow(ctx context.Context, channel string, missing func() error, look func() (again time.Duration, err error)) error {
	within := nestedIn(ctx)
	within.waitUnder(1)
	defer within.waitUnder(-1)
	f := &follower{sleeper: sleeper{done: o.client.done}, of: o, channel: channel, look: look}
	err := f.sleeper.run(ctx, f)
	if f.listener != nil {
		f.listener.Close()
	}
	if missing == nil && errors.Is(err, errEnded) && ctx.Err() != nil {
		return ContextError(ctx) // it waited for nothing
	}
	var known error
	if missing != nil {
		known = missing()
	}
	return whyEnded(ctx, known, err)
}

// follower is the wait of one call of follow.
type follower struct {
	sleeper
	of       *Object
	channel  string
	look     func() (again time.Duration, err error)
	listener *hub.Listener
	heard    int // number of notifications; the first one says that it listens
}

func (f *follower) step(ctx context.Context, why cause) (time.Duration, error) {
	if why == notified {
		// Several goroutines of a client may follow the same channel, and any message
		// makes all of them look.
		if f.heard > 0 {
			if d := f.pace.share(time.Now(), f.listener.Company()); d > 0 {
				f.of.client.pause(ctx, d)
			}
		}
		f.heard++
	}
	again, err := f.look()
	if err != nil || again < 0 {
		return 0, err
	}
	if f.listener == nil {
		f.listener = f.of.client.hub.Listen(f.channel, subscribeMode(f.of.client.conn))
		f.own = f.listener.Hints()
	}
	if err := f.listener.Refused(); err != nil {
		return 0, Meaning(err)
	}
	return again, errNoHold
}
