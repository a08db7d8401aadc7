package mortisetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// DefaultTimeout is how long a client waits for a reply if its context lasts longer, see
// [Link.SetTimeout]. It is that of go-redis.
const DefaultTimeout = 3 * time.Second

// Link is the network between one client and the server, and the client's driver: pass it to
// mortise.New, which panics if the link has a client already. All methods are safe for concurrent use.
type Link struct {
	server *Server

	mu          sync.Mutex // guards the fields below
	timeout     time.Duration
	onCall      func(script string) Fault
	onMessage   func(channel, payload string) Delivery
	next        []planned
	plan        *chaos
	calls       map[string]int
	hits        map[Hit]int
	partitioned author
	frozenBy    author
	frozen      chan struct{} // closed when the link thaws; nil if it is not frozen
	held        []func()      // messages, and changes of subscriptions, that wait for that
	cut         chan struct{} // closed when the connections break
	claimed     bool          // by a client
	closed      bool
	subs        []*subscription
}

var (
	_ driver.Driver  = (*Link)(nil)
	_ driver.Scanner = (*Link)(nil)
	_ driver.Waiter  = (*Link)(nil)
)

// Eval implements driver.Driver.
func (l *Link) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := l.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

// Batch implements driver.Driver. The calls of a batch share their fate, and count as one call to
// the first one's script.
func (l *Link) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	if len(calls) == 0 {
		return nil
	}
	results, err := exchange(ctx, l, calls[0].Script.Name(), func() []driver.Result { return l.server.run(calls) })
	if err != nil {
		results = make([]driver.Result, len(calls))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

// EvalWait implements driver.Waiter. The server has no replicas that acknowledge writes.
func (l *Link) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	results := make([]driver.Acknowledged, len(calls))
	for i, r := range l.Batch(ctx, calls) {
		results[i].Result = r
		if r.Err == nil && wait.AOF {
			results[i].Err = &driver.Error{Class: driver.Other, Err: errors.New("mortisetest: the server has no append-only file")}
		}
	}
	return results
}

// Scan implements driver.Scanner. It counts as a call to "SCAN".
func (l *Link) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	type page struct {
		keys []string
		err  error
	}
	p, err := exchange(ctx, l, "SCAN", func() page {
		keys, err := l.server.scan(context.WithoutCancel(ctx), match)
		return page{keys, err}
	})
	if err = errors.Join(err, p.err); err != nil {
		return err
	}
	return fn(p.keys)
}

// Shard implements driver.Driver.
func (l *Link) Shard(string) string { return "" }

// Topology implements driver.Driver: one server, known without a call.
func (l *Link) Topology(context.Context) (driver.Topology, error) { return driver.Topology{}, nil }

// Subscriber implements driver.Driver. A client calls it once.
func (l *Link) Subscriber(sink driver.Sink) driver.Subscriber {
	l.claim()
	s := newSubscription(l, sink)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs = append(l.subs, s)
	return s
}

// claim panics unless it is the first client that asks: two would suffer each other's faults, and
// the first to close would close the link under the other.
func (l *Link) claim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claimed {
		panic("mortisetest: the Link has a client already; each client needs a link of its own: pass another server.Link() to mortise.New")
	}
	l.claimed = true
}

// Close implements driver.Driver: calls in flight fail, and later ones. What is under way to the
// server arrives there nevertheless.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.breakCalls()
	l.mu.Unlock()
	return nil
}

// breakCalls ends the calls in flight. It must be called with l.mu held.
func (l *Link) breakCalls() {
	close(l.cut)
	l.cut = make(chan struct{})
}

// SetTimeout sets how long the client waits for a reply to a call whose context lasts longer.
func (l *Link) SetTimeout(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeout = d
}

// Calls returns how many calls of a script the client has made, with "" those of all scripts. It
// panics if there were none and no script of mortise is called so, see [Link.Next].
func (l *Link) Calls(script string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if script != "" {
		if n = l.calls[script]; n == 0 {
			needScript(script)
		}
		return n
	}
	for _, n1 := range l.calls {
		n += n1
	}
	return n
}

// Hits returns how often each fault has occurred on this link.
func (l *Link) Hits() map[Hit]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.hits)
}

func (l *Link) hit(what Hit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits[what]++
}

func (l *Link) subscriptions() []*subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.subs)
}
