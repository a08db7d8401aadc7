package mortise

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// Kind is the kind of object that a name is used for in Redis.
type Kind string

// The kinds of object that can be told apart by their data in Redis.
const (
	KindNone       Kind = "none"            // no data, as of a free lock
	KindLock       Kind = "lock"            // a plain lock, of mortise or Redisson
	KindFairLock   Kind = "fairlock"        // the same, with a queue
	KindFencedLock Kind = "fencedlock"      // the same, with fencing tokens
	KindRWLock     Kind = "rwlock"          // a read/write lock
	KindGroupLock  Kind = "grouplock"       // values of a group
	KindElection   Kind = "election"        // a term
	KindPermits    Kind = "permitsemaphore" // a semaphore, with permits
	KindNumber     Kind = "number"          // a semaphore, a latch, or any other number
	KindOther      Kind = "unknown"         // none of these, as far as its form shows
)

// State is the state of a name in Redis at one moment. Its JSON form is stable; see
// [State.MarshalJSON].
type State struct {
	Name    string
	Kind    Kind
	Locked  bool          // there is a holder, a leader, or a permit that is held
	TTL     time.Duration // what the lease has left unless renewed; -1: no limit; 0: not locked
	Holders []Holder
	// Unlisted is how many more holders there are, permits that are held, or values of a group:
	// of more than about a thousand, any thousand are listed.
	Unlisted int
	// Mine is true if the owner that the context carries is a holder, and its
	// lease is still trusted; of a lock with Unlisted holders, if it is listed. [Client.Inspect], which does not know what kind of lock to
	// look for, leaves it false.
	Mine bool

	Mode    string   // of an RWLock: "read" or "write"
	Token   int64    // the newest fencing token, or the number of the term; 0 if none
	Value   string   // of an Election: the leader's value
	Queue   []Waiter // of a FairLock, the next one first
	Number  int64    // of a semaphore: the available permits; of a latch: the count
	Permits []Permit // of a PermitSemaphore: the permits that are held

	// Now is the time of Redis' clock at which Since of a holder or waiter was read, and zero
	// if none is known. The difference is for how long it holds the lock, or waits.
	Now time.Time
}

// Holder is the holder of a lock, as recorded in Redis. The owner of the write
// side of a read/write lock has the suffix ":write".
type Holder struct {
	// Owner is the client's UUID, a colon, and a number (Redisson: the thread's).
	Owner string `json:"owner"`
	// Count is the number of holds, or of a group's values; -1 if Redis has no number.
	Count int `json:"count"`
	// Client is the process that holds it, if it is known: nil for Redisson's threads, for
	// clients that hide their identity, and for what is held for less than about a quarter
	// of a second. A client that may write the keys of locks can forge it.
	Client *ClientInfo `json:"client,omitempty"`
	// Since is when it was acquired, by Redis' clock; zero if that is not known.
	Since time.Time `json:"since,omitzero"`
}

// String returns the process of the holder and since when it has the lock, or its owner if the
// process is not known.
func (h Holder) String() string {
	if h.Client == nil {
		return readable(h.Owner)
	}
	return h.Client.String()
}

// nameless returns an error if Redis names no holder of a lock that more hold than can be read at once: then none can be asked, nor
// lose it.
func nameless(s State) error {
	if s.Unlisted == 0 || len(s.Holders)+len(s.Permits) > 0 {
		return nil
	}
	return fmt.Errorf("%w: it has %d holders, and the user lacks the rights to HRANDFIELD and HSCAN, of which some can be read", ErrDenied, s.Unlisted)
}

// Kept reports whether the lock is only kept: its holder has released it before the end of
// its [LockOptions.MinHold].
func (h Holder) Kept() bool {
	_, kept := script.KeptBy(h.Owner)
	return kept
}

// Permit is a permit of a [PermitSemaphore] that is held.
type Permit struct {
	ID  string        // in hex, as in Redisson's API
	TTL time.Duration // what its lease has left unless renewed; -1: no limit
}

// Inspect reads the state of the lock from the master. It changes nothing, and
// blocks only for Redis' reply. It does not return [ErrWrongKind]: if the name
// is used for something else, [State.Kind] says so.
//
// Errors: those of every method; see the package documentation.
func (k *locker) Inspect(ctx context.Context) (State, error) {
	s, err := reader(k.lock.Client()).Inspect(ctx, k.Name())
	if id := k.lock.LeaseID(ctx); id != "" {
		s.Mine = slices.ContainsFunc(s.Holders, func(h Holder) bool { return h.Owner == id })
	}
	return s, err
}

// Inspect reads the state of a name from the master, whatever it is used for. It
// recognizes the kind of object by the form of its data; it cannot tell a
// semaphore from a latch if there is only a number. It changes nothing, and
// blocks only for Redis' reply. It does not return [ErrWrongKind].
//
// Errors: those of every method; see the package documentation.
func (c *Client) Inspect(ctx context.Context, name string) (State, error) {
	o := c.object(name)
	key, err := read(ctx, "inspect", &o.core.Object)
	if err != nil {
		return State{}, err
	}
	s := state(name, key)
	c.identify(ctx, &s)
	return s, nil
}

// read reads the data under the name of o.
func read(ctx context.Context, op string, o *lease.Object) (script.Key, error) {
	needContext(ctx)
	var result script.InspectResult
	err := o.Operate(ctx, func(ctx context.Context, _ script.Publish) error {
		result = script.Inspect(ctx, o.Client().Config().Driver, o.Key())[0]
		return result.Err
	})
	return result.Key, fail(op, o.Name(), err)
}

// state interprets the data under a name.
func state(name string, k script.Key) State {
	s := State{Name: name, Kind: KindOther, Queue: waiters(k.Queue)}
	s.Token, _ = strconv.ParseInt(k.Token, 10, 64)
	switch k.Type {
	case "none":
		s.Kind = KindNone
		if len(s.Queue) > 0 {
			s.Kind = KindFairLock
		}
	case "hash":
		s.readHash(k)
	case "string":
		s.readNumber(k)
	}
	return s
}

// readHash interprets a hash: every kind of lock, and elections.
func (s *State) readHash(k script.Key) {
	left := k.Unlisted()
	switch mode := k.Fields["mode"]; {
	case mode == "election" && k.Size == 5 && left == 0:
		s.Kind = KindElection
		s.Value = k.Fields["value"]
		s.Token, _ = strconv.ParseInt(k.Fields["term"], 10, 64)
		for _, field := range []string{"mode", "value", "term", "edition"} {
			delete(k.Fields, field)
		}
	case mode == "read" || mode == "write":
		s.Kind, s.Mode, s.Unlisted = KindRWLock, mode, left
		delete(k.Fields, "mode")
	case k.Size == 1 && isHolder(k.Fields):
		s.Kind = s.lockKind()
	case left == 0 && isGroup(k.Fields):
		s.Kind = KindGroupLock
		k.Fields = groupHolders(k.Fields)
	case left > 0:
		holders, values := someGroupHolders(k.Fields)
		if values == 0 || k.Size%3 != 0 {
			return
		}
		s.Kind, s.Unlisted = KindGroupLock, k.Size/3-values
		k.Fields = holders
	default:
		return
	}
	s.add(k)
}

// lockKind tells the kinds of lock apart whose hashes look alike.
func (s *State) lockKind() Kind {
	switch {
	case len(s.Queue) > 0:
		return KindFairLock
	case s.Token > 0:
		return KindFencedLock
	default:
		return KindLock
	}
}

// readNumber interprets a string: a semaphore, with or without permits, or a latch.
func (s *State) readNumber(k script.Key) {
	var err error
	if s.Number, err = strconv.ParseInt(k.Text, 10, 64); err != nil {
		return
	}
	s.Kind = KindNumber
	if len(k.Permits) > 0 {
		s.Kind, s.Unlisted = KindPermits, k.Unlisted()
	}
	for _, p := range k.Permits {
		if !p.Ever && p.Left <= 0 { // expired; the next request reclaims it
			s.Number++
			continue
		}
		permit := Permit{ID: permitText(p.ID), TTL: p.Left}
		if p.Ever {
			permit.TTL = -1
		}
		if p.Ever || s.TTL < 0 {
			s.TTL = -1
		} else {
			s.TTL = max(s.TTL, permit.TTL)
		}
		s.Locked = true
		s.Permits = append(s.Permits, permit)
	}
}

func (s *State) add(k script.Key) {
	s.Locked, s.TTL = true, k.TTL
	for owner, count := range k.Fields {
		s.Holders = append(s.Holders, holder(owner, count))
	}
	slices.SortFunc(s.Holders, func(a, b Holder) int { return strings.Compare(a.Owner, b.Owner) })
}

// holder returns the holder that a field of a hash describes.
func holder(owner, count string) Holder {
	return Holder{Owner: owner, Count: script.Count(count)}
}

// plainHolder returns the holder of a plain lock. It accepts any form of owner,
// because the caller expects a lock under the name.
func plainHolder(k script.Key) (Holder, bool) {
	if k.Type != "hash" || k.Size != 1 || k.Fields["mode"] != "" {
		return Holder{}, false
	}
	for owner, count := range k.Fields {
		return holder(owner, count), true
	}
	return Holder{}, false
}

// isHolder reports whether a hash of one field looks like a lock: a client's
// UUID, a colon and more text, with a count.
func isHolder(fields map[string]string) bool {
	for owner, count := range fields {
		client, rest, ok := strings.Cut(owner, ":")
		n, err := strconv.Atoi(count)
		return ok && rest != "" && isUUID(client) && err == nil && n > 0
	}
	return false
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			return false
		}
	}
	return true
}

// isGroup reports whether a hash looks like the values of a group: for each value
// an owner, and its expiry and count.
func isGroup(fields map[string]string) bool {
	holders := groupHolders(fields)
	n := 0
	for _, values := range holders {
		v, _ := strconv.Atoi(values)
		n += v
	}
	return n > 0 && len(fields) == 3*n
}

// groupHolders returns the owners that hold values of a group, with the number
// of values of each.
func groupHolders(fields map[string]string) map[string]string {
	values := make(map[string]int)
	for value, owner := range fields {
		_, timed := fields[value+":"+owner+":expire_time"]
		_, counted := fields[value+":"+owner+":lock_count"]
		if timed && counted {
			values[owner]++
		}
	}
	holders := make(map[string]string, len(values))
	for owner, n := range values {
		holders[owner] = strconv.Itoa(n)
	}
	return holders
}

// someGroupHolders returns owners that hold values of a group of which not all fields are known, and of how many
// values they are known. How many each holds is not.
func someGroupHolders(fields map[string]string) (holders map[string]string, values int) {
	holders = make(map[string]string)
	for field := range fields {
		text, counted := strings.CutSuffix(field, ":lock_count")
		for at := len(text); counted && at > 0; {
			at = strings.LastIndexByte(text[:at], ':')
			if client, _, ok := strings.Cut(text[at+1:], ":"); at >= 0 && ok && isUUID(client) {
				holders[text[at+1:]] = ""
				values++
				break
			}
		}
	}
	return holders, values
}

func waiters(queue []script.Due) (list []Waiter) {
	for _, d := range queue {
		w := Waiter{Owner: d.ID, TTL: d.Left}
		if d.Ever { // without a deadline Redisson waits for it forever
			w.TTL = -1
		}
		list = append(list, w)
	}
	return list
}

// permitText returns the id of a permit as Redisson's API shows it. Redisson up
// to 3.16 stores it in this form.
func permitText(id string) string {
	if len(id) == 16 {
		return hex.EncodeToString([]byte(id))
	}
	return id
}
