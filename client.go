package mortise

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/newest"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Client creates locks. An application needs one Client for each Redis
// deployment. A Client has one watchdog and one subscription, whatever the
// number of locks. Its methods are safe for concurrent use.
type Client struct {
	driver   driver.Driver
	options  Options
	invalid  error  // why options are not acceptable, or nil
	id       string // a UUID, the first part of every owner on the wire
	serial   atomic.Uint64
	conn     *script.Conn // runs the scripts of locks
	born     time.Time    // zero of the client's time
	watchdog *watchdog.Watchdog
	terms    watchdog.Terms // of leases with default options
	hub      *hub.Hub
	tokens   newest.Table // highest tokens seen, by counter key

	life     context.Context    // ends with Close
	done     <-chan struct{}    // life.Done()
	end      context.CancelFunc // ends life
	lingerer context.Context    // for background work; ends linger after done
	dismiss  context.CancelFunc // ends lingerer
	running  sync.WaitGroup     // operations and background work

	mu      sync.Mutex // guards the following fields, and every queue
	closed  bool
	queues  map[place]*queue
	held    table
	asking  map[place]struct{}  // places with a request that asks without queueing
	ears    map[place]idleEar   // channels kept open after their last waiter
	sharing map[string]*sharing // what is known of Redisson's use of locks
	clocks  map[string]*reading // of the servers that renew leases, by server
	sweeper *time.Timer         // closes idle ears; deletes old entries of sharing and deaf
	swept   time.Time           // when sweeper fires; zero if it is not set
	deaf    map[place]deafness  // channels of this client on which messages were lost
	looks   map[place]time.Time // when a released fair lock is checked again
	leaving map[place]*leavers  // waiters that a goroutine removes from a fair lock's queue in Redis
	lanes   int                 // number of lanes for operations on numbers
	idle    []string            // lanes that no operation uses
	janitor janitor             // undoes acquisitions that are no longer wanted
	able    map[ability]int     // verified abilities of masters, with their replica counts
}

// New returns a client that uses d and takes ownership of it. New does no I/O.
// Wrap a Redis client with driver/goredis or driver/rueidis, or use package
// connect to open one from a URL. Nil options mean the defaults; options that
// are not acceptable make every operation fail with [ErrInvalid].
//
// The caller must close the client.
func New(d driver.Driver, options *Options) *Client {
	c := &Client{
		driver: d, conn: script.NewConn(d), options: options.withDefaults(), id: script.NewClientID(), born: time.Now(),
		hub:    hub.New(d, script.Echo),
		queues: make(map[place]*queue), held: newTable(), asking: make(map[place]struct{}), ears: make(map[place]idleEar), deaf: make(map[place]deafness), sharing: make(map[string]*sharing),
		clocks: make(map[string]*reading),
		looks:  make(map[place]time.Time), leaving: make(map[place]*leavers), able: make(map[ability]int),
	}
	c.invalid = c.options.validate()
	c.life, c.end = context.WithCancel(context.Background())
	c.done = c.life.Done()
	c.lingerer, c.dismiss = context.WithCancel(context.Background())
	c.terms = watchdog.Terms{TTL: c.options.Lease, Trust: LockOptions{}.trust(c.options.Lease)}
	c.watchdog = watchdog.New(watchdog.Config{Renew: c.renew, Shard: c.shard, Lost: c.lost})
	return c
}

// linger is how long Close lets background work continue that releases
// unwanted locks.
const linger = time.Second

// Close ends the client: every wait returns [ErrClosed], the watchdog and the
// subscription end, and the driver is closed. A Redis client that the
// application wrapped itself stays open.
//
// Release all holds before Close. Close abandons the remaining ones: their
// contexts end with cause ErrClosed, and their leases expire in Redis, because
// the work they protect may not have stopped yet.
//
// Close blocks until every goroutine of the client has ended: usually for a
// moment, and for some seconds at most if Redis does not answer.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return &Error{Op: "close", Err: ErrClosed}
	}
	c.closed = true
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	var held []*lease
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

	c.end()
	for _, w := range waiting {
		w.signal()
	}
	for _, l := range held {
		l.end(ErrClosed)
	}
	c.watchdog.Close()
	timer := time.AfterFunc(linger, c.dismiss)
	err := c.hub.Close()
	// Running operations end because done is closed, unless they wait for
	// Redis: closing the driver makes those fail.
	idle := make(chan struct{})
	go func() { defer close(idle); c.running.Wait() }()
	select {
	case <-idle:
	case <-c.lingerer.Done():
	}
	if cerr := c.driver.Close(); err == nil {
		err = cerr
	}
	<-idle
	timer.Stop()
	c.dismiss()
	return err
}

// time returns t in the client's time.
func (c *Client) time(t time.Time) time.Duration { return t.Sub(c.born) }

// begin registers an operation, so that Close waits for it.
func (c *Client) begin() error {
	if c.invalid != nil {
		return c.invalid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running.Add(1)
	return nil
}

// background runs f in a goroutine that Close waits for. The context of f ends
// linger after Close was called. It reports false if the client is closed.
func (c *Client) background(f func(ctx context.Context)) bool {
	if c.begin() != nil {
		return false
	}
	go func() {
		defer c.running.Done()
		f(c.lingerer)
	}()
	return true
}

// spawn is background for callers that hold c.mu. It runs f even if the client
// is closed, because Close lingers.
func (c *Client) spawn(f func(ctx context.Context)) {
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		f(c.lingerer)
	}()
}

// check returns an error for an invalid name, before anything is sent.
func (c *Client) check(name string) error {
	if err := keyspace.Check(name, c.options.AllowAnyName); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// newID returns the id of a new lease: the owner's text in Redis.
func (c *Client) newID() string {
	var text [64]byte
	id := append(append(text[:0], c.id...), ':')
	return string(strconv.AppendUint(id, c.serial.Add(1), 10))
}

// newTurnID returns the id of a lease that Redis may grant to the client. The id
// cannot be guessed, so a notification that names it is genuine.
func (c *Client) newTurnID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return c.id + ":" + strconv.FormatUint(binary.BigEndian.Uint64(b[:])>>1, 10)
}

// publish returns how releases are announced. The first call may ask Redis. On
// a cluster it returns an error for names that only work on a single server.
func (c *Client) publish(ctx context.Context, name string) (script.Publish, error) {
	if c.conn.Known() && !c.options.AllowAnyName {
		return c.conn.Publish(), nil
	}
	var topology driver.Topology
	_, err := c.call(ctx, c.options.RetryFor, func(ctx context.Context) (err error) {
		topology, err = c.driver.Topology(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	if topology.Cluster {
		if err := keyspace.CheckSlot(name); err != nil {
			return 0, invalid("%v", err)
		}
	}
	p := c.options.PubSub.on(topology)
	c.conn.Learn(topology.Cluster, p)
	return p, nil
}

func (p PubSub) on(t driver.Topology) script.Publish {
	switch {
	case !t.Cluster || p == PubSubClassic:
		return script.Classic
	case p == PubSubBoth:
		return script.Both
	case p == PubSubSharded || t.Sharded:
		return script.Sharded
	}
	return script.Classic
}

// renew renews leases for the watchdog, in one batch: one script for each group
// of leases that share a slot.
func (c *Client) renew(ctx context.Context, leases []*watchdog.Lease) []watchdog.Answer {
	groups, members := c.group(leases)
	answers := make([]watchdog.Answer, len(leases))
	results := []script.RenewResult(nil)
	server := c.driver.Shard(leases[0].Of.(*lease).name)
	start := time.Now()
	if d := leases[0].Of.(*lease).options.Durability; d.none() { // the same for a whole shard
		results = script.Renew(ctx, c.driver, groups)
	} else {
		results = c.renewAndWait(ctx, d, groups)
	}
	end := time.Now()
	for g, result := range results {
		if result.Err == nil {
			c.clocked(server, result.Clock, start, end)
		}
		for j, i := range members[g] {
			switch {
			case result.Err != nil:
				answers[i] = watchdog.Answer{State: watchdog.Failed, Err: result.Err}
			case result.States[j] == script.Renewed:
				answers[i] = watchdog.Answer{State: watchdog.Renewed}
			case result.States[j] == script.Taken:
				answers[i] = watchdog.Answer{State: watchdog.Taken, Err: c.ahead(server, leases[i])}
			default:
				answers[i] = watchdog.Answer{State: watchdog.Gone, Err: c.ahead(server, leases[i])}
			}
		}
	}
	return answers
}

// renewWords is the maximum number of arguments of the renewals in one script.
// Most renewals have a few; that of a GroupLock has one for each value.
const renewWords = 2000

// group groups the leases that one script may renew together: those of one
// kind, on one server and, on a cluster, in one slot.
func (c *Client) group(leases []*watchdog.Lease) (groups [][]script.Renewal, members [][]int) {
	type together struct {
		script *driver.Script
		slot   uint16
	}
	last := make(map[together]int) // the group that still has room
	var words []int                // number of arguments, for each group
	cluster := c.conn.Cluster()
	for i, w := range leases {
		l := w.Of.(*lease)
		ttl := w.Terms.TTL
		if !w.Extends() {
			ttl = l.rest()
		}
		r := l.ops.Renewal(l.id, ttl)
		r.Most, r.Count = l.asking()
		t := together{script: r.Script}
		if cluster {
			t.slot = keyspace.Slot(r.Key)
		}
		g, ok := last[t]
		if !ok || len(groups[g]) == script.RenewBatch || words[g]+len(r.Args) > renewWords {
			room := 1
			if !cluster { // on a cluster each of thousands of slots may have a lease or two
				room = min(len(leases)-i, script.RenewBatch)
			}
			g = len(groups)
			groups, members, words = append(groups, make([]script.Renewal, 0, room)), append(members, make([]int, 0, room)), append(words, 0)
			last[t] = g
		}
		groups[g] = append(groups[g], r)
		words[g] += len(r.Args)
		members[g] = append(members[g], i)
	}
	return groups, members
}
