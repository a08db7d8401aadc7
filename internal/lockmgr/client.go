package lockmgr

import (
	"context"
	"crypto/rand"
	"encoding/binary"
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
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Client has the leases, the wait queues and the background goroutines of one client. It
// has one watchdog and one subscription, whatever the number of locks. Its methods are safe for concurrent use.
type Client struct {
	config     Config
	driver     driver.Driver
	errors     Errors
	id         string // a UUID, the first part of every owner on the wire
	serial     atomic.Uint64
	conn       *script.Conn // runs the scripts of locks
	born       time.Time    // zero of the client's time
	watchdog   *watchdog.Watchdog
	terms      watchdog.Terms // of leases with default options
	hub        *hub.Hub
	tokens     newest.Table // highest tokens seen, by counter key
	operations operations
	replicas   replicas
	departures departures
	takebacks  takebacks
	rechecks   rechecks
	releases   releases // which a failover may forget
	janitor    janitor  // undoes acquisitions that are no longer wanted
	others     others
	counters   counters
	recorder   *recorder // nil if the client has no record

	life     context.Context       // ends with Close
	done     <-chan struct{}       // life.Done()
	end      context.CancelFunc    // ends life
	lingerer context.Context       // for background work; ends linger after done
	dismiss  context.CancelFunc    // ends lingerer
	running  running               // operations and background work
	failed   atomic.Pointer[error] // the last failure since Redis has last answered
	start    func(run func())      // starts background work in a test; else nil

	mu      sync.Mutex // guards the following fields, and every queue
	closed  bool
	queues  map[place]*queue
	held    table
	asking  map[place]struct{}         // places with a request that asks without queueing
	idle    map[place]idleSubscription // channels kept open after their last waiter
	sharing sharings                   // what is known of Redisson's use of locks
	sweeper *time.Timer                // closes idle channels; deletes old entries of sharing, deaf and met
	swept   time.Time                  // when sweeper fires; zero if it is not set
	deaf    map[place]deafness         // channels of this client on which messages were lost
	met     map[place]time.Time        // when another client was last met at a lock

	lastWait uint64       // the serial number of the last wait
	muted    atomic.Bool  // it was reported that the server has no messages
	lastGap  atomic.Int64 // when the last interruption was reported, in the client's time; 0 if none was
}

// New returns a client that uses the driver, and takes ownership of it. It does no I/O.
func New(config Config) *Client {
	c := &Client{
		config: config, driver: config.Driver, errors: config.Errors,
		conn: script.NewConn(config.Driver), id: script.NewClientID(), born: time.Now(),
		queues: make(map[place]*queue), held: newTable(), asking: make(map[place]struct{}), idle: make(map[place]idleSubscription), deaf: make(map[place]deafness), met: make(map[place]time.Time),
	}
	if config.FairWait > 0 {
		c.conn.SetFairStep(config.FairWait)
	}
	c.hub = hub.New(config.Driver, script.Echo, c.gap, c.mute)
	if config.Observe != nil {
		c.conn.OnPassed(func(lock string, n int) {
			c.tell(Event{Type: EventPassedOver, Lock: strings.TrimPrefix(lock, config.Prefix), Kind: "fairlock", Passed: n})
		})
	}
	c.operations.client, c.others.client = c, c
	if config.Identity != nil || config.History > 0 || config.Observe != nil {
		c.recorder = newRecorder(c)
	}
	c.sharing = sharings{c, make(map[string]*sharing)}
	c.replicas.client, c.replicas.able = c, make(map[ability]int)
	c.janitor.client, c.janitor.wake = c, make(chan struct{}, 1)
	c.running.fell = make(chan struct{}, 1)
	c.life, c.end = context.WithCancel(context.Background())
	c.done = c.life.Done()
	c.lingerer, c.dismiss = context.WithCancel(context.Background())
	c.terms = watchdog.Terms{TTL: config.TTL, Trust: defaultOptions.trust(config.TTL)}
	r := newRenewer(c)
	c.watchdog = watchdog.New(watchdog.Config{Renew: r.renew, Shard: r.shard, Lost: r.lost, Paused: c.paused()})
	return c
}

// Done returns a channel that is closed when the client is.
func (c *Client) Done() <-chan struct{} { return c.done }

// Run calls f unless the client is closed. Close waits for it.
func (c *Client) Run(f func() error) error {
	if err := c.begin(); err != nil {
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
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	var held []*Lease
	var waiting []*waiter
	for _, leases := range c.held {
		held = slices.AppendSeq(held, maps.Values(leases))
	}
	for _, q := range c.queues {
		for w := q.head; w != nil; w = w.next {
			waiting = append(waiting, w)
		}
	}
	c.mu.Unlock()

	c.recorder.close(leftBy(held))
	c.end()
	for _, w := range waiting {
		w.signal()
	}
	for _, l := range held {
		if l.keeps() {
			c.spawn(l.keepClosed)
		}
		l.end(endClosed)
	}
	c.recorder.end()
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

// time returns t in the client's time.
func (c *Client) time(t time.Time) time.Duration { return t.Sub(c.born) }

// begin registers an operation, so that Close waits for it.
func (c *Client) begin() error {
	if c.config.Invalid != nil {
		return c.config.Invalid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running.add()
	return nil
}

// background runs f in a goroutine that Close waits for. The context of f ends
// linger after Close was called. It reports false if the client is closed.
func (c *Client) background(f func(ctx context.Context)) bool {
	if c.begin() != nil {
		return false
	}
	run := func() {
		defer c.running.done()
		f(c.lingerer)
	}
	if c.start != nil {
		c.start(run)
		return true
	}
	go run()
	return true
}

// spawn is background for callers that hold c.mu, or that Close waits for. It runs f even
// if the client is closed, because Close lingers.
func (c *Client) spawn(f func(ctx context.Context)) {
	c.running.add()
	run := func() {
		defer c.running.done()
		f(c.lingerer)
	}
	if c.start != nil {
		c.start(run)
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

// newTurnID returns the id of a lease that Redis may grant to a client. The id
// cannot be guessed, so a notification that names it is genuine.
func newTurnID(client string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return client + ":" + strconv.FormatUint(binary.BigEndian.Uint64(b[:])>>1, 10)
}
