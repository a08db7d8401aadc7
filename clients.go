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

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/recorder"
	"github.com/mortise-go/mortise/internal/script"
)

// Identity is what a client publishes about its process, in a record in Redis. The zero
// value of each field is its default.
//
// A client has a record while it holds or waits for something for longer than about a quarter
// of a second. The record is a key of its own that expires; it is written at most once a second
// while something changes (four times while the client waits under a lock), and every ten
// seconds otherwise; an idle client writes nothing, and no lock costs a command more. A client
// that may read the keys of locks may read it, and one that may write them can forge it. It
// is for people: who holds a lock does not depend on it. But [Client.Ask] reaches holders by their
// records, and a wait with [DeadlockFail] ends if records show a deadlock.
type Identity struct {
	Host    string // default: the name of the machine
	App     string // default: the name of the program's file
	Version string // of the application; default: the version of the main module, if it is known
	// Extra is anything else that helps to find the process, such as the name of its
	// container. At most 16 entries, and 1 KiB in all. The entry "command" is the program that
	// the process runs under its locks, as mortise run does: it is shown after App.
	Extra map[string]string
	// Hide keeps the client from writing a record. Others see it as its UUID only, it cannot
	// be asked to release a lock, and takes no part in the search for deadlocks. It does not
	// read records either to name holders in errors and states.
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
		return outcome.Invalid("Options.Identity.Extra has %d entries of %d bytes in all; at most 16 and %d are allowed", len(i.Extra), size, record.MaxExtra)
	}
	return nil
}

// ClientInfo describes the process of a client, according to its record in Redis.
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

// IsSilent reports whether the client has not renewed its record for more than 15 s: see Silent.
func (i *ClientInfo) IsSilent() bool { return i.Silent > record.Overdue }

// Command returns the program that the process runs under its locks, if its record names one:
// see [Identity.Extra].
func (i *ClientInfo) Command() string { return i.Extra[record.Command] }

// String returns the host, the process id, the application and its command. Text from elsewhere is quoted
// if it could be mistaken for anything else.
func (i ClientInfo) String() string {
	text := readable(i.Host) + " pid " + strconv.Itoa(i.PID)
	var program []string
	for _, name := range []string{i.App, i.Command()} {
		if name != "" {
			program = append(program, readable(name))
		}
	}
	if len(program) > 0 {
		text += " (" + strings.Join(program, ": ") + ")"
	}
	if i.IsSilent() {
		text += fmt.Sprintf(" (silent for %v)", i.Silent.Round(time.Second))
	}
	return text
}

// ClientState is what a client holds and waits for, according to its record, which may be a second
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
	// Asked are the requests to release a lock that the client has not seen yet, or has seen a
	// moment ago: see [Client.Ask].
	Asked []ClientRequest
}

// ClientRequest is a request to release a lock.
type ClientRequest struct {
	Owner      string // the id of the holder
	By, Reason string // as [RevokedError] has them
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
	// More is how many other goroutines of the client wait for the same that are not listed.
	More int
}

// Clients returns all mortise clients with the same [Options.Prefix] that have a record in
// Redis, the oldest first. It reads an index and one key for each client, in batches; it does
// not search the keyspace. At most 10,000 clients are read. It changes nothing.
//
// Errors: those of every method; see the package documentation. If some servers of a cluster could not be read, within
// [Options.RetryFor] each, the error is an [UnlistedError], beside the clients whose records the others have: there are none if the
// index is on such a server.
func (c *Client) Clients(ctx context.Context) ([]ClientState, error) {
	needContext(ctx)
	records, err := recorder.Of(c.core).Records(ctx)
	if err != nil {
		err = &Error{Op: "list clients", Err: unlisted(c.core.Because(ctx, err))}
	}
	if len(records) == 0 {
		return nil, err
	}
	states := make([]ClientState, 0, len(records))
	for _, r := range records {
		states = append(states, clientState(r))
	}
	slices.SortFunc(states, func(a, b ClientState) int {
		return 2*a.Started.Compare(b.Started) + strings.Compare(a.ID, b.ID)
	})
	return states, err
}

// clientState returns a record as the API shows it.
func clientState(r *record.Client) ClientState {
	s := ClientState{ClientInfo: *clientInfo(r), HoldCount: r.Body.HoldCount, WaitCount: r.Body.WaitCount, Now: r.Now}
	for _, h := range r.Body.Holds {
		s.Holds = append(s.Holds, ClientHold{Lock: h.Name, Kind: h.Kind, Owner: h.Owner, Since: record.Time(h.Since), Token: h.Token})
	}
	for _, w := range r.Body.Waits {
		wait := ClientWait{Lock: w.Name, Kind: w.Kind, Since: record.Time(w.Since), For: w.For, More: w.More}
		for _, u := range w.Under {
			wait.Under = append(wait.Under, u.Owner)
		}
		s.Waits = append(s.Waits, wait)
	}
	for _, a := range r.Asked {
		if request, ok := record.ParseRequest(a.Text); ok {
			s.Asked = append(s.Asked, ClientRequest{Owner: a.Lease, By: request.By, Reason: request.Reason})
		}
	}
	return s
}

// clientInfo returns the identity of a record, and nil if there is none.
func clientInfo(r *record.Client) *ClientInfo {
	if r == nil {
		return nil
	}
	b := &r.Body
	return &ClientInfo{
		ID: r.ID, Host: b.Host, PID: b.PID, App: b.App, Version: b.Version, Started: record.Time(b.Started).UTC(),
		Extra: maps.Clone(b.Extra), Mortise: b.Mortise, Silent: r.Now.Sub(r.At),
	}
}

// identify adds to states what the records of their holders and waiters say. It reads the records of
// sixty-four clients, in one batch: of more holders, and of those whose record is not read within a second, the rest stay
// without a process. silent reports that the only server there is did not answer.
func (c *Client) identify(ctx context.Context, states ...*State) (silent bool) {
	if c.core.Config().Identity == nil {
		return false // it publishes nothing, and does not ask
	}
	var owners []string
	for _, s := range states {
		for _, h := range s.Holders {
			owners = append(owners, h.Owner)
		}
		for _, w := range s.Queue {
			owners = append(owners, w.Owner)
		}
	}
	records, silent := recorder.Of(c.core).RecordsOf(ctx, owners)
	for _, s := range states {
		for i := range s.Holders {
			h := &s.Holders[i]
			if r := records[script.ClientOf(h.Owner)]; r != nil {
				h.Client, h.Since = clientInfo(r), r.Since(h.Owner)
				s.Now = r.Now
			}
		}
		for i := range s.Queue {
			w := &s.Queue[i]
			if r := records[script.ClientOf(w.Owner)]; r != nil {
				w.Client, w.Since = clientInfo(r), r.WaitsSince(w.Owner)
				s.Now = r.Now
			}
		}
	}
	return silent
}
