// Package watch looks at locks in Redis, again and again, and reports what happens to them: what is held, who
// waits, since when, and what has changed. It needs nothing of the programs that it watches. `mortise watch` and the
// dashboard are made of it.
//
// A [Watcher] looks, within a bounded load. [Merge] makes a [Snapshot] of what a look has seen and of the
// snapshot before, and [Diff] returns the events between two; these do no I/O and know no clock.
//
// What is read has two sources. The records of mortise's clients name holders and waiters, but are up
// to about a second old, and leave out what lasts for less than a quarter of a second. The keys of locks
// are exact, but name nobody, and only some of them are read in each look.
package watch

import (
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/record"
)

// Party is a holder or a waiter.
type Party struct {
	Owner  string // the id in Redis; empty if it is not known
	Client string // the UUID of the client; empty if it is not known
	Host   string // empty if the client has no record
	PID    int
	App    string
	// Command is the program that the process runs under its locks: see [mortise.Identity.Extra].
	Command string
}

// Named reports whether the process of p is known.
func (p *Party) Named() bool { return p.Host != "" || p.PID != 0 }

// Kept reports whether the lock is only kept: its holder has released it before the time of its MinHold.
func (p *Party) Kept() bool { return mortise.Holder{Owner: p.Owner}.Kept() }

// Text returns the host and the process, else the id. Quote is applied to what others may have written.
func (p *Party) Text(quote func(string) string) string {
	switch {
	case p.Kept():
		return "kept after its release"
	case p.Named():
		return quote(p.Host) + " pid " + strconv.Itoa(p.PID)
	case p.Owner != "":
		return quote(p.Owner)
	case p.Client != "":
		return quote(p.Client)
	}
	return "unknown"
}

// LongText is Text with the application and its command, as far as they are known.
func (p *Party) LongText(quote func(string) string) string {
	text := p.Text(quote)
	if p.Kept() || !p.Named() {
		return text
	}
	var program []string
	for _, name := range []string{p.App, p.Command} {
		if name != "" {
			program = append(program, quote(name))
		}
	}
	if len(program) > 0 {
		text += " (" + strings.Join(program, ": ") + ")"
	}
	return text
}

// party returns a party of a client.
func party(c *mortise.ClientInfo, owner string) Party {
	p := Party{Owner: owner, Client: clientOf(owner)}
	if c != nil {
		p.Client, p.Host, p.PID, p.App, p.Command = c.ID, c.Host, c.PID, c.App, c.Command()
	}
	return p
}

// clientOf returns the UUID of the client of an owner.
func clientOf(owner string) string {
	id, _, ok := strings.Cut(owner, ":")
	if !ok {
		return ""
	}
	return id
}

// HoldKey distinguishes the holds of a snapshot.
type HoldKey struct{ Lock, Owner string }

// Hold is a lock that is held.
type Hold struct {
	Lock, Kind string
	Party      Party
	Since      time.Time // when it was acquired; if that is not known, when it was seen first
	Exact      bool      // Since is when it was acquired
	Found      bool      // nothing was known of the lock before it was seen first
	Token      int64
	Waited     time.Duration // how long its client has waited for it; -1 if no wait was seen
	From       *Party        // that had the lock before it
	// Former is true if another owner has acquired the lock since, which excludes this one: the record of its
	// client is late to say that it has ended.
	Former bool
	// Until is when its lease ends unless renewed, by Redis' clock, as its key said in this look. It is zero if
	// the lease has no end, and if the key was not read: see [Watcher.Show].
	Until time.Time

	recorded bool          // it is in a record
	silent   time.Duration // for how long its client has not renewed its record, when that was last read
	gone     time.Time     // since when it is over, while it is not known who has the lock after it
	how      Ending        // how it has ended, if it is over
}

// key returns the key of h.
func (h *Hold) key() HoldKey { return HoldKey{h.Lock, h.Party.Owner} }

// WaitKey distinguishes the waits of a snapshot.
type WaitKey struct {
	Lock, Kind, Client string
	Since              int64 // ms
	Nth                int   // of those that began at the same time
}

// Wait is a goroutine that waits for a lock.
type Wait struct {
	Lock, Kind string
	Party      Party
	Since      time.Time
	For        Party // that is in the way, as far as the waiter knows
	More       int   // how many other goroutines of its client wait for the same that the record does not list

	left time.Time // since when its record does not list it any more; zero if it does
}

// Request is a request to release a lock that a holder has not seen yet.
type Request struct {
	Lock   string
	Party  Party // the holder
	By     string
	Reason string
}

// Ending is how a hold has ended, as far as that is known.
type Ending struct {
	Lost   bool   // its lease is gone, and it was not released
	Unsure bool   // it was released or lost
	Why    string // the reason for Lost or Unsure

	at time.Time // when that was seen; zero for the time of the snapshot
}

// Snapshot is what is known after a look.
type Snapshot struct {
	At time.Time // of the look, by Redis' clock

	Holds map[HoldKey]*Hold
	Waits map[WaitKey]*Wait
	Asked map[HoldKey]Request

	held   map[string]bool       // the locks that are held
	ended  map[HoldKey]Ending    // of the holds that the snapshot before has, and this has not
	served map[WaitKey]bool      // the waits that have ended with a hold
	brief  []*Hold               // that have come and gone since the snapshot before
	claims map[HoldKey]time.Time // since when a key has not had a hold that a record claims
	young  map[HoldKey]*Hold     // that wait for a record to name them
	viewed map[string]time.Time  // when the key of a name was last read
	before map[string]*formerly  // the holds of locks that have ended last

	processes map[string]process // of the clients whose records were read lately
}

// formerly is the hold of a lock that has ended last.
type formerly struct {
	hold *Hold
	at   time.Time
}

// Sighting is what was read in one look.
type Sighting struct {
	At      time.Time // by Redis' clock
	Clients []mortise.ClientState
	// States are the states of the names whose keys were read since the look before.
	States map[string]mortise.State
	// Later has the names that a search of all keys has found, and no earlier search.
	Later map[string]bool
	// Unread has the clients whose records could not be read, because a server of a cluster does not answer.
	Unread map[string]bool
	// Gap is true if Redis could not be read for a while before.
	Gap bool
}

const (
	// claimLasts is how long a record may claim a hold that the key does not have: it is written
	// within about a second of a change.
	claimLasts = 2500 * time.Millisecond
	// unnamed is how long a holder waits to be named by a record, and leaves how long a wait
	// that has ended waits for the record to list the hold.
	unnamed = 1500 * time.Millisecond
	leaves  = 1500 * time.Millisecond
	// silence is how long after the last renewal of its record a client is taken for dead.
	silence = record.Overdue
	// viewLasts is for how long it is remembered that a key was read of which nothing is known, and formerLasts who
	// had it.
	viewLasts   = 10 * time.Second
	formerLasts = 5 * time.Second
)

// keyed are the kinds of holds, in records, whose key has the owner as a field.
var keyed = map[string]bool{
	"lock": true, "fairlock": true, "fencedlock": true, "spinlock": true, "rwlock.read": true, "rwlock.write": true,
}

// permitKind is the kind of a hold of permits, in records.
const permitKind = "permitsemaphore"

// excludes reports whether a hold excludes another of the same lock.
func excludes(a, b *Hold) bool { return !shared[a.Kind] || !shared[b.Kind] }

// shared are the kinds that several owners can have at once.
var shared = map[string]bool{"rwlock.read": true, "grouplock": true, permitKind: true, "doublebarrier": true}
