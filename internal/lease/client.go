package lease

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/newest"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Client has the leases, the wait queues and the background goroutines of one client. It
// has one watchdog and one subscription, whatever the number of locks. Its methods are safe for concurrent use.
type Client struct {
	config   Config
	driver   driver.Driver
	errors   Errors
	id       string // a UUID, the first part of every owner on the wire
	serial   atomic.Uint64
	conn     *script.Conn // runs the scripts of locks
	born     time.Time    // zero of the client's time
	watchdog *watchdog.Watchdog
	terms    watchdog.Terms // of leases with default options
	hub      *hub.Hub
	tokens   newest.Table // highest tokens seen, by counter key
	replicas replicas
	releases releases // which a failover may forget
	janitor  janitor  // undoes acquisitions that are no longer wanted
	Counters counters
	recorder Recorder

	life     context.Context       // ends with Close
	done     <-chan struct{}       // life.Done()
	end      context.CancelFunc    // ends life
	lingerer context.Context       // for background work; ends linger after done
	dismiss  context.CancelFunc    // ends lingerer
	running  running               // operations and background work
	failed   atomic.Pointer[error] // the last failure since Redis has last answered

	waiters Waiters // the goroutines that wait for what the client's leases keep

	Mu     sync.Mutex // guards the following fields, and every queue
	closed bool
	held   table

	muted   atomic.Bool  // it was reported that the server has no messages
	lastGap atomic.Int64 // when the last interruption was reported, in the client's time; 0 if none was
}

// New returns a client that uses the driver, and takes ownership of it. It does no I/O.
func New(config Config) *Client {
	c := &Client{
		config: config, driver: config.Driver, errors: config.Errors,
		conn: script.NewConn(config.Driver), id: script.NewClientID(), born: time.Now(),
		held: newTable(),
	}
	if config.FairWait > 0 {
		c.conn.SetFairStep(config.FairWait)
	}
	c.hub = hub.New(config.Driver, script.Echo, c.gap, c.mute)
	if config.Observe != nil {
		c.conn.OnPassed(func(lock string, n int) {
			c.Emit(outcome.Event{Type: outcome.EventPassedOver, Lock: strings.TrimPrefix(lock, config.Prefix), Kind: "fairlock", Passed: n})
		})
	}
	c.recorder = unrecorded{}
	c.replicas.client, c.replicas.able = c, make(map[ability]int)
	c.janitor.client, c.janitor.wake = c, make(chan struct{}, 1)
	c.running.fell = make(chan struct{}, 1)
	c.life, c.end = context.WithCancel(context.Background())
	c.done = c.life.Done()
	c.lingerer, c.dismiss = context.WithCancel(context.Background())
	c.terms = watchdog.Terms{TTL: config.TTL, Trust: defaultOptions.Trust(config.TTL)}
	r := newRenewer(c)
	c.watchdog = watchdog.New(watchdog.Config{Renew: r.renew, Shard: r.shard, Lost: r.lost, Paused: c.paused()})
	return c
}

// Attach makes w the waiters of the client, before anything else is called.
func (c *Client) Attach(w Waiters) { c.waiters = w }

// Record makes r the recorder of the client, before anything else is called.
func (c *Client) Record(r Recorder) { c.recorder = r }

// Recorder returns the recorder of the client.
func (c *Client) Recorder() Recorder { return c.recorder }

// Changed notes that the client holds or waits for something else than before, for its record.
func (c *Client) Changed() { c.recorder.Changed() }

// IsClosed reports whether Close was called. It must be called with Client.Mu held.
func (c *Client) IsClosed() bool { return c.closed }

// HeldAt returns the lease of this client on p, or nil. It must be called with Client.Mu held.
func (c *Client) HeldAt(p Place) *Lease { return c.held.at(p) }

// Leases calls f with the leases of each use. It must be called with Client.Mu held.
func (c *Client) Leases(f func(map[string]*Lease)) {
	for _, leases := range c.held {
		f(leases)
	}
}

// NextSerial returns a number that no other call of it has returned.
func (c *Client) NextSerial() uint64 { return c.serial.Add(1) }

// LastFailure returns the last failure since Redis has last answered, or nil.
func (c *Client) LastFailure() error {
	if failed := c.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Waiters returns the waiters of the client.
func (c *Client) Waiters() Waiters { return c.waiters }

// Driver returns the client's driver.
func (c *Client) Driver() driver.Driver { return c.driver }

// Errors returns what makes the errors of the client.
func (c *Client) Errors() Errors { return c.errors }

// ID returns the id of the client, with which the ids of its leases begin.
func (c *Client) ID() string { return c.id }

// Hub returns the subscriptions of the client.
func (c *Client) Hub() *hub.Hub { return c.hub }

// Life returns a context that ends with Close, and Lingerer one that ends a moment later.
func (c *Client) Life() context.Context { return c.life }

// Lingerer returns the context of background work.
func (c *Client) Lingerer() context.Context { return c.lingerer }

// Done returns a channel that is closed when the client is.
func (c *Client) Done() <-chan struct{} { return c.done }

// Run calls f unless the client is closed. Close waits for it.
func (c *Client) Run(f func() error) error {
	if err := c.Begin(); err != nil {
		return err
	}
	defer c.running.done()
	return f()
}

// Conn returns the client's connection to Redis.
func (c *Client) Conn() *script.Conn { return c.conn }

// Config returns how the client was configured. It must not be changed.
func (c *Client) Config() *Config { return &c.config }

// linger is how long Close lets background work continue that releases
// unwanted locks.
const linger = time.Second

// Close ends the client: every wait returns ErrClosed, holds that are left end with cause
// ErrClosed, and their leases expire in Redis. It closes the driver. It blocks until every
// goroutine of the client has ended.
func (c *Client) Close() error {
	c.Mu.Lock()
	if c.closed {
		c.Mu.Unlock()
		return outcome.ErrClosed
	}
	c.closed = true
	var held []*Lease
	for _, leases := range c.held {
		held = slices.AppendSeq(held, maps.Values(leases))
	}
	c.Mu.Unlock()

	c.recorder.Leave(held)
	c.end()
	c.waiters.End()
	for _, l := range held {
		if l.Keeps() {
			c.Spawn(l.keepClosed)
		}
		l.end(EndClosed)
	}
	c.recorder.End()
	c.watchdog.Close()
	timer := time.AfterFunc(linger, c.dismiss)
	err := c.hub.Close()
	// Running operations end because done is closed, unless they wait for
	// Redis: closing the driver makes those fail.
	c.running.wait(c.lingerer.Done())
	if cerr := c.driver.Close(); err == nil {
		err = cerr
	}
	c.running.wait(nil)
	timer.Stop()
	c.dismiss()
	return err
}

// Time returns t in the client's time.
func (c *Client) Time(t time.Time) time.Duration { return t.Sub(c.born) }

// Begin registers an operation, so that Close waits for it.
func (c *Client) Begin() error {
	if c.config.Invalid != nil {
		return c.config.Invalid
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed {
		return outcome.ErrClosed
	}
	c.running.add()
	return nil
}

// Finish ends an operation that begin has registered.
func (c *Client) Finish() { c.running.done() }

// Background runs f in a goroutine that Close waits for. The context of f ends
// linger after Close was called. It reports false if the client is closed.
func (c *Client) Background(f func(ctx context.Context)) bool {
	if c.Begin() != nil {
		return false
	}
	run := func() {
		defer c.running.done()
		f(c.lingerer)
	}
	if c.config.Start != nil {
		c.config.Start(run)
		return true
	}
	go run()
	return true
}

// Spawn is background for callers that hold c.mu, or that Close waits for. It runs f even
// if the client is closed, because Close lingers.
func (c *Client) Spawn(f func(ctx context.Context)) {
	c.running.add()
	run := func() {
		defer c.running.done()
		f(c.lingerer)
	}
	if c.config.Start != nil {
		c.config.Start(run)
		return
	}
	go run()
}

// NewID returns the id of a new lease: the owner's text in Redis.
func (c *Client) NewID() string {
	var text [64]byte
	id := append(append(text[:0], c.id...), ':')
	return string(strconv.AppendUint(id, c.serial.Add(1), 10))
}
