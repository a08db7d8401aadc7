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
	var listener *hub.Listener
	var pace pacer
	heard := false
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		again, err := look()
		if err != nil || again < 0 {
			return err
		}
		if listener == nil {
			listener = o.client.hub.Listen(channel, o.hearing())
			defer listener.Close()
		}
		if err := listener.Refused(); err != nil {
			return &Error{Op: op, Name: o.name, Err: meaning(err)}
		}
		timer.Reset(again)
		select {
		case <-listener.Hints():
			// The first is that it listens. Several of one client may follow the
			// same channel, and whoever may publish makes all of them look.
			if heard {
				if d := pace.share(time.Now(), listener.Company()); d > 0 {
					o.client.pause(ctx, d)
				}
			}
			heard = true
		case <-timer.C:
		case <-ctx.Done():
			return &Error{Op: op, Name: o.name, Err: contextError(ctx)}
		case <-o.client.done:
			return &Error{Op: op, Name: o.name, Err: ErrClosed}
		}
	}
}
