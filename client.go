package mortise

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/recorder"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Client creates locks. An application needs one Client for each Redis
// deployment. A Client has one watchdog and one subscription, whatever the
// number of locks. Its methods are safe for concurrent use.
type Client struct {
	core    *lease.Client
	numbers *permits.Numbers
}

// New returns a client that uses d and takes ownership of it. New does no I/O.
// Wrap a Redis client with driver/goredis or driver/rueidis, or use package
// connect to open one from a URL. Nil options mean the defaults; options that
// are not acceptable make every operation fail with [ErrInvalid]. New panics if d is
// nil, and so does every method if its context is.
//
// The caller must close the client.
func New(d driver.Driver, options *Options) *Client {
	if d == nil {
		panic("mortise: nil driver")
	}
	o := options.withDefaults()
	config := lease.Config{
		Driver: d, Invalid: o.validate(), TTL: o.TTL, RetryFor: o.RetryFor, UnlockFor: o.UnlockFor, FairWait: o.FairWait, Prefix: o.Prefix, AllowAnyName: o.AllowAnyName,
		Errors: publicErrors{}, Publish: o.PubSub.on,
	}
	if tell := o.OnClockJump; tell != nil {
		config.OnClockJump = func(server string, jump time.Duration) { tell(&ClockError{server, jump}) }
	}
	config.Identity = o.Identity.body()
	config.Observe, config.History = o.observe(), o.History
	if linker, ok := o.Observer.(Linker); ok {
		config.Link = linker.Link
	}
	if decide := o.OnAsk; decide != nil {
		config.OnAsk = func(h *lease.Hold, err error) {
			if why, ok := errors.AsType[*RevokedError](err); ok {
				decide((*Hold)(h), why)
			}
		}
	}
	c := lease.New(config)
	queues := waiting.New(c)
	recorder.New(queues)
	return &Client{c, permits.NewNumbers(queues)}
}

// reader returns a client for what only reads: it has no operations on numbers.
func reader(core *lease.Client) *Client { return &Client{core: core} }

// Close ends the client: every wait returns [ErrClosed], the watchdog and the
// subscription end, and the driver is closed. A Redis client that the
// application wrapped itself stays open.
//
// Release all holds before Close. Close abandons the remaining ones: their
// contexts end with cause ErrClosed, and their leases expire in Redis, because
// the work they protect may not have stopped yet.
//
// Close blocks until every goroutine of the client has ended: usually for a
// moment, and for some seconds at most if Redis does not answer. A second call
// returns an error that matches ErrClosed.
func (c *Client) Close() error {
	err := c.core.Close()
	if errors.Is(err, ErrClosed) {
		return &Error{Op: "close", Err: err}
	}
	return err
}

// object is what all kinds of object have in common: a client and a name.
type object struct{ core permits.Number }

func (c *Client) object(name string) object { return object{c.numbers.Number(c.core.Object(name))} }

// Name returns the name, without [Options.Prefix].
func (o *object) Name() string { return o.core.Name() }

// fail returns the error of an operation, and nil if err is nil.
func (o *object) fail(op string, err error) error {
	return fail(op, o.core.Name(), err)
}

// operate runs a script that is neither an acquisition nor a release of a hold.
func (o *object) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	needContext(ctx)
	return o.fail(op, o.core.Operate(ctx, f))
}

// change runs a script that changes a number, as an operation of its own.
func (o *object) change(ctx context.Context, op string, f func(context.Context, script.Operation, script.Publish) error) error {
	needContext(ctx)
	return o.fail(op, o.core.Change(ctx, f))
}

// changeDetached is change for what others wait for: the end of ctx does not stop it.
func (o *object) changeDetached(ctx context.Context, op string, f func(context.Context, script.Operation, script.Publish) error) error {
	needContext(ctx)
	return o.fail(op, o.core.ChangeDetached(ctx, f))
}

// number returns the number under the name, or 0 if there is none.
func (o *object) number(ctx context.Context, op string) (int64, error) {
	needContext(ctx)
	n, err := o.core.Read(ctx)
	return n, o.fail(op, err)
}

// A nil that is given in place of a context, a function or a driver is a mistake in the
// program. It panics at once, with a text that names it, before anything is sent.

func needContext(ctx context.Context) {
	if ctx == nil {
		panic("mortise: nil context")
	}
}

// needWork checks the arguments of a method that calls f under a lock.
func needWork(ctx context.Context, f func(context.Context) error) {
	needContext(ctx)
	if f == nil {
		panic("mortise: nil function")
	}
}
