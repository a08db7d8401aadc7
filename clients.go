package mortise

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/lockmgr"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Identity is what a client tells others about its process, in a record in Redis. The zero
// value of each field is its default.
//
// A client has a record while it holds or waits for something for longer than about a quarter
// of a second. The record is a key of its own that expires; it is written at most once a second
// while something changes (four times while the client waits under a lock), and every ten
// seconds otherwise; an idle client writes nothing, and no lock costs a command more. Anybody
// who may read the keys of locks may read it, and anybody who may write them can forge it: it
// is for people, nothing that mortise decides about a lock depends on it.
type Identity struct {
	Host    string // default: the name of the machine
	App     string // default: the name of the program's file
	Version string // of the application; default: the version of the main module, if it is known
	// Extra is anything else that helps to find the process, such as the name of its
	// container. At most 16 entries, and 1 KiB in all.
	Extra map[string]string
	// Hide keeps the client from writing a record. Others see it as its UUID only, it cannot
	// be asked to release a lock, and takes no part in the search for deadlocks.
	Hide bool
}

// body returns the record of a client with that identity, and nil if it is hidden.
func (i *Identity) body() *record.Body {
	if i.Hide {
		return nil
	}
	b := &record.Body{Host: i.Host, App: i.App, Version: i.Version, Extra: maps.Clone(i.Extra), PID: os.Getpid(), Started: started.UnixMilli()}
	if b.Host == "" {
		b.Host, _ = os.Hostname()
	}
	if b.App == "" {
		b.App = filepath.Base(os.Args[0])
	}
	main, library := versions()
	b.Version, b.Mortise = cmp.Or(b.Version, main), library
	b.Clean()
	return b
}

// started is about when the process was started.
var started = time.Now()

// versions returns those of the program and of this module, as far as they are known.
var versions = sync.OnceValues(func() (program, library string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	const path = "github.com/mortise-go/mortise"
	for _, m := range info.Deps {
		if m.Path == path {
			library = m.Version
		}
	}
	if program = info.Main.Version; program == "(devel)" {
		program = ""
	}
	return program, library
})

// validate returns an error for an identity that is not acceptable.
func (i *Identity) validate() error {
	size := 0
	for key, value := range i.Extra {
		size += len(key) + len(value)
	}
	if len(i.Extra) > 16 || size > record.MaxExtra {
		return lockmgr.Invalid("Options.Identity.Extra has %d entries of %d bytes in all; at most 16 and %d are allowed", len(i.Extra), size, record.MaxExtra)
	}
	return nil
}

// ClientInfo describes the process of a client, as its record in Redis tells.
type ClientInfo struct {
	ID      string            `json:"id"` // its UUID: the first part of the id of each of its owners
	Host    string            `json:"host"`
	PID     int               `json:"pid"`
	App     string            `json:"app,omitempty"`
	Version string            `json:"version,omitempty"`
	Started time.Time         `json:"started"` // by the clock of its own machine
	Extra   map[string]string `json:"extra,omitempty"`
	Mortise string            `json:"mortise,omitempty"` // the version of this library
	// Silent is for how long it has not renewed its record, by Redis' clock, when that was
	// read. More than 15 s means that its process has died, stands still, or has lost its
	// connection: a record is renewed every ten seconds, and lasts for thirty.
	Silent time.Duration `json:"-"`
}

// String returns the host, the process id and the application. Text from elsewhere is quoted
// if it could be mistaken for anything else.
func (i *ClientInfo) String() string {
	text := readable(i.Host) + " pid " + strconv.Itoa(i.PID)
	if i.App != "" {
		text += " (" + readable(i.App) + ")"
	}
	if i.Silent > record.Overdue {
		text += fmt.Sprintf(", silent for %v", i.Silent.Round(time.Second))
	}
	return text
}

// ClientState is what a client holds and waits for, as its record tells: that may be a second
// old, and has neither what lasted for less than a quarter of a second nor more than 64 of
// either, the oldest.
type ClientState struct {
	ClientInfo
	Holds     []ClientHold
	Waits     []ClientWait
	HoldCount int // of all locks that it holds
	WaitCount int // of all its goroutines that wait
	// Now is the time of Redis' clock at which the record was read: the difference to Since is
	// for how long the client holds a lock, or waits.
	Now time.Time
}

// ClientHold is what a client holds.
type ClientHold struct {
	Lock  string
	Kind  string // as [Event.Kind]
	Owner string
	Since time.Time // by Redis' clock
	Token int64
}

// ClientWait is what a goroutine of a client waits for.
type ClientWait struct {
	Lock  string
	Kind  string // as [Event.Kind]
	Since time.Time
	// For is the id of the owner that was in the way when Redis, or the client, last looked. It
	// is empty unless the goroutine waits under a lease.
	For string
	// Under has the ids of the leases under which it waits: its context is that of their holds.
	Under []string
}

// Clients returns all mortise clients with the same [Options.Prefix] that have a record in
// Redis, the oldest first. It reads an index and one key for each client, in batches; it does
// not search the keyspace. At most 10,000 clients are read. It changes nothing.
//
// Errors: those of every method; see the package documentation.
func (c *Client) Clients(ctx context.Context) ([]ClientState, error) {
	needContext(ctx)
	records, err := c.core.Records(ctx)
	if err != nil {
		return nil, &Error{Op: "list clients", Err: c.core.Because(ctx, err)}
	}
	states := make([]ClientState, 0, len(records))
	for _, r := range records {
		states = append(states, clientState(r))
	}
	slices.SortFunc(states, func(a, b ClientState) int {
		return 2*a.Started.Compare(b.Started) + strings.Compare(a.ID, b.ID)
	})
	return states, nil
}

// clientState returns a record as the API shows it.
func clientState(r *lockmgr.Record) ClientState {
	s := ClientState{ClientInfo: *clientInfo(r), HoldCount: r.Body.HoldCount, WaitCount: r.Body.WaitCount, Now: r.Now}
	for _, h := range r.Body.Holds {
		s.Holds = append(s.Holds, ClientHold{Lock: h.Name, Kind: h.Kind, Owner: h.Owner, Since: time.UnixMilli(h.Since), Token: h.Token})
	}
	for _, w := range r.Body.Waits {
		wait := ClientWait{Lock: w.Name, Kind: w.Kind, Since: time.UnixMilli(w.Since), For: w.For}
		for _, u := range w.Under {
			wait.Under = append(wait.Under, u.Owner)
		}
		s.Waits = append(s.Waits, wait)
	}
	return s
}

// clientInfo returns the identity of a record, and nil if there is none.
func clientInfo(r *lockmgr.Record) *ClientInfo {
	if r == nil {
		return nil
	}
	b := &r.Body
	return &ClientInfo{
		ID: r.ID, Host: b.Host, PID: b.PID, App: b.App, Version: b.Version, Started: time.UnixMilli(b.Started).UTC(),
		Extra: maps.Clone(b.Extra), Mortise: b.Mortise, Silent: r.Now.Sub(r.At),
	}
}

// Queue is who waits for a name.
type Queue struct {
	Name string
	// Waiters are mortise's waiters, and the Redisson threads in the queue of a fair lock, in
	// the order in which they are served, as far as there is one: goroutines of one client
	// are next to each other, except for a fair lock.
	Waiters []Waiter
	// Listeners is the number of Redisson clients that listen for a release; each may have
	// several threads that wait. It is -1 if that cannot be known: on a cluster with classic
	// messages, or without the right to ask.
	Listeners int
	// Now is the time of Redis' clock at which Since of the waiters was read; zero if none is
	// known.
	Now time.Time
}

// Queue reads who waits for a name: the queue of a fair lock, the turns of other locks, and
// the records of the clients. It changes nothing, and blocks only for Redis' reply.
//
// A waiter that came less than about a second ago may be missing. Waiters of clients that hide
// their identity are known only by the queue of a fair lock, or as one per client.
//
// Errors: those of every method; see the package documentation.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	needContext(ctx)
	q := Queue{Name: name, Listeners: -1}
	o := c.object(name)
	key, err := read(ctx, "queue", &o.core)
	if err != nil {
		return q, err
	}
	turns, err := c.core.Turns(ctx, &o.core)
	if err != nil {
		return q, o.fail("queue", err)
	}
	q.Listeners = turns.Listeners
	records, err := c.core.Records(ctx)
	if err != nil {
		return q, o.fail("queue", err)
	}
	for _, r := range records {
		q.Now = r.Now
	}
	q.Waiters = queued(name, waiters(key.Queue), turns.Clients, records)
	return q, nil
}

// queued merges what is known of the waiters for a name: the queue of a fair lock, the clients
// in the order of their turns, and what the records say.
func queued(name string, fair []Waiter, turns []string, records []*lockmgr.Record) (list []Waiter) {
	listed := make(map[string]bool)
	byID := make(map[string]*lockmgr.Record)
	waits := make(map[string][]record.Wait)
	var order []string // of clients
	for _, r := range records {
		byID[r.ID] = r
		for _, w := range r.Body.Waits {
			if w.Name == name {
				if len(waits[r.ID]) == 0 {
					order = append(order, r.ID)
				}
				waits[r.ID] = append(waits[r.ID], w)
			}
		}
	}
	for _, w := range fair {
		id := script.ClientOf(w.Owner)
		w.Client = clientInfo(byID[id])
		for _, known := range waits[id] {
			if known.Owner == w.Owner {
				w.Since = time.UnixMilli(known.Since)
			}
		}
		listed[w.Owner] = true
		list = append(list, w)
	}
	rank := func(id string) int {
		if i := slices.Index(turns, id); i >= 0 {
			return i
		}
		return len(turns)
	}
	for _, id := range turns {
		if len(waits[id]) == 0 && !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if len(waits[a]) == 0 || len(waits[b]) == 0 {
			return 0
		}
		return int(waits[a][0].Since - waits[b][0].Since)
	})
	for _, id := range order {
		if len(waits[id]) == 0 {
			list = append(list, Waiter{Owner: id, TTL: -1, Client: clientInfo(byID[id])})
		}
		for _, w := range waits[id] {
			if !listed[w.Owner] || w.Owner == "" {
				list = append(list, Waiter{Owner: id, TTL: -1, Kind: w.Kind, Client: clientInfo(byID[id]), Since: time.UnixMilli(w.Since)})
			}
		}
	}
	return list
}
