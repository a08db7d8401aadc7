package mortise

import (
	"context"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/script"
)

// object is what all kinds of object have in common: a client and a name in Redis.
type object struct {
	client *Client
	name   string
}

// Name returns the name in Redis.
func (o *object) Name() string { return o.name }

// operate runs a script that is neither an acquisition nor a release of a hold.
func (o *object) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	return o.perform(ctx, op, func(p script.Publish) error {
		_, err := o.client.call(ctx, o.client.options.RetryFor, func(ctx context.Context) error { return f(ctx, p) })
		return err
	})
}

// perform calls f if the client is open and the name may be used, once it is known how
// messages travel. Close waits for it.
func (o *object) perform(ctx context.Context, op string, f func(script.Publish) error) error {
	c := o.client
	run := func() error {
		if err := c.begin(); err != nil {
			return err
		}
		defer c.running.Done()
		if err := c.check(o.name); err != nil {
			return err
		}
		p, err := c.publish(ctx, o.name)
		if err != nil {
			return err
		}
		return f(p)
	}
	if err := run(); err != nil {
		return &Error{Op: op, Name: o.name, Err: because(ctx, c.because(err))}
	}
	return nil
}

// hearing returns how to subscribe to a channel.
func (o *object) hearing() hub.Kind {
	p := o.client.conn.Publish()
	return hub.Kind{Classic: p != script.Sharded, Sharded: p != script.Classic}
}
