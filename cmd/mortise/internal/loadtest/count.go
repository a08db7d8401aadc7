package loadtest

import (
	"context"
	"sync/atomic"

	"github.com/mortise-go/mortise/driver"
)

// counter counts what clients send.
type counter struct {
	commands atomic.Int64 // one for each script, and for each change of a subscription
	batches  atomic.Int64 // those that renew
	batched  atomic.Int64 // keys of the scripts that renew: one for each lock
}

// counted is a driver that counts the commands it sends.
type counted struct {
	driver.Driver
	sent *counter
}

// Eval implements driver.Driver.
func (c counted) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	c.sent.commands.Add(1)
	return c.Driver.Eval(ctx, call)
}

// Batch implements driver.Driver.
func (c counted) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	c.sent.commands.Add(int64(len(calls)))
	c.sent.batches.Add(int64(len(calls)))
	for _, call := range calls {
		c.sent.batched.Add(int64(len(call.Keys)))
	}
	return c.Driver.Batch(ctx, calls)
}

// Subscriber implements driver.Driver.
func (c counted) Subscriber(sink driver.Sink) driver.Subscriber {
	return countedSubscriber{Subscriber: c.Driver.Subscriber(sink), sent: c.sent}
}

type countedSubscriber struct {
	driver.Subscriber
	sent *counter
}

// Subscribe implements driver.Subscriber.
func (s countedSubscriber) Subscribe(channel string, sharded bool) {
	s.sent.commands.Add(1)
	s.Subscriber.Subscribe(channel, sharded)
}

// Unsubscribe implements driver.Subscriber.
func (s countedSubscriber) Unsubscribe(channel string, sharded bool) {
	s.sent.commands.Add(1)
	s.Subscriber.Unsubscribe(channel, sharded)
}
