package mortise

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// Kind says what a name is used for in Redis.
type Kind string

// The kinds of object that can be told apart by what lies in Redis.
const (
	KindNone     Kind = "none"     // nothing is there: a lock that is free
	KindLock     Kind = "lock"     // a plain lock, of mortise or Redisson
	KindRWLock   Kind = "rwlock"   // a read/write lock
	KindElection Kind = "election" // an election in which somebody leads
	KindOther    Kind = "unknown"  // something that is not a lock, as far as can be seen
)

// State is what Redis says about a name at one moment.
type State struct {
	Name    string
	Kind    Kind
	Locked  bool
	TTL     time.Duration // how long the lease lasts unless renewed; -1 without limit; 0 if not locked
	Holders []Holder
	// Mode says how an RWLock is held: "read" or "write". The holder that
	// writes is the one whose name ends with ":write".
	Mode string
	// Mine tells that the owner which the context carries is a holder, and
	// trusts its lease.
	Mine bool
}

// Holder is who holds a lock, as it stands in Redis.
type Holder struct {
	Owner string // the client's UUID, a colon, and a number (Redisson: the thread's)
	Count int    // how many times it was taken and not given back
}

// Inspect reads the state of the lock from the master. It changes nothing and
// waits for nothing but Redis' answer. A name that is used for something else
// is no error here: [State.Kind] says so.
//
// Errors: [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed], the error
// of ctx.
func (k *locker) Inspect(ctx context.Context) (State, error) {
	key, err := k.read(ctx, "inspect")
	if err != nil {
		return State{}, err
	}
	s := state(k.name, key)
	if o := ownerOf(ctx); o != nil {
		if l := o.lease(k.client, k.place); l != nil && l.state() == nil {
			s.Mine = slices.ContainsFunc(s.Holders, func(h Holder) bool { return h.Owner == l.id })
		}
	}
	return s, nil
}

// read reads what lies under the lock's name.
func (k *locker) read(ctx context.Context, op string) (script.Key, error) {
	var result script.InspectResult
	err := k.operate(ctx, op, func(ctx context.Context, _ script.Publish) error {
		result = script.Inspect(ctx, k.client.driver, k.name)[0]
		return result.Err
	})
	return result.Key, err
}

// state makes sense of what lies under a name.
func state(name string, k script.Key) State {
	s := State{Name: name, Kind: KindOther}
	switch {
	case k.Type == "none":
		s.Kind = KindNone
	case k.Type == "hash" && k.Fields["mode"] == "election" && k.Size == 5:
		s.Kind = KindElection
		for _, field := range []string{"mode", "term", "value", "edition"} {
			delete(k.Fields, field)
		}
		s.add(k)
	case k.Type == "hash" && (k.Fields["mode"] == "read" || k.Fields["mode"] == "write"):
		s.Kind, s.Mode = KindRWLock, k.Fields["mode"]
		delete(k.Fields, "mode")
		s.add(k)
	case k.Type == "hash" && k.Size == 1 && isHolder(k.Fields):
		s.Kind = KindLock
		s.add(k)
	}
	return s
}

func (s *State) add(k script.Key) {
	s.Locked, s.TTL = true, k.TTL
	for owner, count := range k.Fields {
		s.Holders = append(s.Holders, holder(owner, count))
	}
	slices.SortFunc(s.Holders, func(a, b Holder) int { return strings.Compare(a.Owner, b.Owner) })
}

// holder makes a holder of a hash's field. A foreign count that is no number
// reads as 0.
func holder(owner, count string) Holder {
	n, _ := strconv.Atoi(count)
	return Holder{Owner: owner, Count: n}
}

// plainHolder returns the holder of a plain lock, of whatever form its owner
// is: whoever names a lock means one.
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
// UUID, a colon and more, with a count.
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

// Locks walks over the locks whose names match the glob pattern (as in Redis:
// * ? [abc]), Redisson's included. It uses SCAN, so it does not hold up the
// server, and what is locked or released meanwhile may or may not be seen. A
// lock is known by its form: a hash whose only field is a UUID, a colon and
// more. It is no place for a hot path: it looks at every key that matches.
//
// The client must not be closed inside the loop: Close waits for the walk.
//
// An error ends the walk; it comes with a zero State. Errors are those of
// [Lock.Inspect].
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if err := c.scan(ctx, pattern, yield); err != nil && !errors.Is(err, errStop) {
			yield(State{}, &Error{Op: "list", Name: pattern, Err: meaning(err)})
		}
	}
}

// errStop ends a scan whose reader has seen enough.
var errStop = errors.New("stop")

func (c *Client) scan(ctx context.Context, pattern string, yield func(State, error) bool) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	scanner, ok := c.driver.(driver.Scanner)
	if !ok {
		return errors.New("this driver cannot list keys")
	}
	seen := make(map[string]bool) // a key may come twice
	return scanner.Scan(ctx, pattern, func(keys []string) error {
		for i, result := range script.Inspect(ctx, c.driver, keys...) {
			if result.Err != nil {
				return result.Err
			}
			if s := state(keys[i], result.Key); s.Locked && !seen[s.Name] {
				seen[s.Name] = true
				if !yield(s, nil) {
					return errStop
				}
			}
		}
		return nil
	})
}
