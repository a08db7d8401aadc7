package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
)

// follow calls look at once, and again whenever a message on the channel hints
// that there is something new, or the time is over that look has returned. It
// ends without error when look returns a negative time. It ends with the error
// of look as it is, or when ctx or the client does.
//
// Look must have called operate, which learns how messages travel.
func (o *object) follow(ctx context.Context, op, channel string, look func() (again time.Duration, err error)) error {
	f := &follower{sleeper: sleeper{done: o.client.done}, of: o, channel: channel, look: look}
	err := f.sleeper.run(ctx, f)
	if f.listener != nil {
		f.listener.Close()
	}
	switch {
	case err == errEnded:
		err = &Error{Op: op, Name: o.name, Err: o.client.unlessOver(ctx, err)}
	case f.refused:
		err = &Error{Op: op, Name: o.name, Err: meaning(err)}
	}
	return err
}

// follower is the wait for what is new under a name.
type follower struct {
	sleeper
	of       *object
	channel  string
	look     func() (again time.Duration, err error)
	listener *hub.Listener
	heard    bool // the first hint is that it listens
	refused  bool // Redis has refused the channel
}

func (f *follower) step(ctx context.Context, why cause) (time.Duration, error) {
	if why == notified {
		// Several of one client may follow the same channel, and whoever may publish
		// makes all of them look.
		if f.heard {
			if d := f.pace.share(time.Now(), f.listener.Company()); d > 0 {
				f.of.client.pause(ctx, d)
			}
		}
		f.heard = true
	}
	again, err := f.look()
	if err != nil || again < 0 {
		return 0, err
	}
	if f.listener == nil {
		f.listener = f.of.client.hub.Listen(f.channel, f.of.hearing())
		f.own = f.listener.Hints()
	}
	if err := f.listener.Refused(); err != nil {
		f.refused = true
		return 0, err
	}
	return again, errNoHold
}
