package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// Object is what all kinds of object have in common: a client and a name in Redis.
type Object struct {
	client *Client
	name   string // in Redis, with the client's prefix: keys, channels and places derive from it
}

// Object returns the object that the application calls name.
func (c *Client) Object(name string) Object { return Object{c, c.config.Prefix + name} }

// ObjectAt returns the object with that name in Redis.
func (c *Client) ObjectAt(key string) Object { return Object{c, key} }

// Name returns the name as the application knows it, for errors and states.
func (o *Object) Name() string { return o.name[len(o.client.config.Prefix):] }

// Key returns the name in Redis, which begins with the client's prefix.
func (o *Object) Key() string { return o.name }

// Client returns the client.
func (o *Object) Client() *Client { return o.client }

// Operate runs a script that is neither an acquisition nor a release of a hold. It asks
// again until Redis has answered, as the client's options say.
func (o *Object) Operate(ctx context.Context, f func(context.Context, script.Publish) error) error {
	return o.Perform(ctx, func(p script.Publish) error {
		_, err := o.client.Call(ctx, o.client.config.RetryFor, func(ctx context.Context) error { return f(ctx, p) })
		return err
	})
}

// Perform calls f if the client is open and the name may be used, once it is known how
// messages travel. Close waits for it.
func (o *Object) Perform(ctx context.Context, f func(script.Publish) error) error {
	c := o.client
	run := func() error {
		if err := c.Begin(); err != nil {
			return err
		}
		defer c.running.done()
		if err := o.checkName(); err != nil {
			return err
		}
		p, err := o.learnTopology(ctx)
		if err != nil {
			return err
		}
		return f(p)
	}
	if err := run(); err != nil {
		return c.Because(ctx, err)
	}
	return nil
}

// checkName returns an error for an invalid name, before anything is sent.
func (o *Object) checkName() error {
	if o.Name() == "" {
		return outcome.Invalid("%v", keyspace.ErrEmpty)
	}
	err := keyspace.Check(o.name, o.client.config.AllowAnyName)
	if errors.Is(err, keyspace.ErrPermitEnds) { // a lock of Redisson's may have such a name
		err = fmt.Errorf("%w; Options.AllowAnyName admits it", err)
	}
	return o.invalid(err)
}

// invalid returns the error for a name that was refused, or nil if err is nil. A rule may refuse
// a name only because of the prefix, which the error therefore shows.
func (o *Object) invalid(err error) error {
	switch prefix := o.client.config.Prefix; {
	case err == nil:
		return nil
	case prefix == "":
		return outcome.Invalid("%v", err)
	default:
		return outcome.Invalid("in Redis it is called %.600q, with the prefix %q: %v", o.name, prefix, err)
	}
}

// CheckName returns an error if valid refuses the name, unless the client allows any name.
func (o *Object) CheckName(valid func(name string) error) error {
	if o.client.config.AllowAnyName {
		return nil
	}
	return o.invalid(valid(o.name))
}

// learnTopology returns how releases are announced. The first call may ask Redis. On a
// cluster it returns an error for names that only work on a single server.
func (o *Object) learnTopology(ctx context.Context) (script.Publish, error) {
	c := o.client
	if c.conn.Known() && !c.config.AllowAnyName {
		return c.conn.Publish(), nil
	}
	var topology driver.Topology
	_, err := c.Call(ctx, c.config.RetryFor, func(ctx context.Context) (err error) {
		topology, err = c.driver.Topology(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	if topology.Cluster {
		if err := o.invalid(keyspace.CheckSlot(o.name)); err != nil {
			return 0, err
		}
	}
	p := c.config.Publish(topology)
	c.conn.Learn(topology.Cluster, p)
	return p, nil
}

// Finish runs f in the background, or at once if the client is closed. Close waits a moment
// for it.
func (o *Object) Finish(f func(ctx context.Context)) {
	if !o.client.Background(f) {
		f(o.client.lingerer)
	}
}

// FinishWithin runs op in the background until Redis has given a definite answer, and for
// at most d after the first failure; or once if the client is closed.
func (o *Object) FinishWithin(d time.Duration, op func(ctx context.Context) error) {
	c := o.client
	if !c.Background(func(ctx context.Context) { _, _ = c.Call(ctx, d, op) }) {
		_ = op(c.lingerer)
	}
}

// Forced ends the leases of this client on the object, of locks of that use, that were freed
// by force: those for whose ids concerned returns true. It is called with a mutex
// locked, and must be quick.
func (o *Object) Forced(use Use, concerned func(id string) bool) {
	var lost []*Lease
	c := o.client
	c.Mu.Lock()
	for _, l := range c.held[use] {
		if l.name == o.name && concerned(l.id) {
			lost = append(lost, l)
		}
	}
	c.Mu.Unlock()
	for _, l := range lost {
		l.end(l.loss(LostForced, nil))
	}
}

// Turns returns the clients that take turns for a name.
func (o *Object) Turns(ctx context.Context) (t script.TurnsTaken, err error) {
	err = o.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		t, err = o.client.conn.ReadTurns(ctx, o.name)
		return err
	})
	return t, err
}
