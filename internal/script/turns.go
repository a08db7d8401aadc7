package script

import (
	"fmt"
	"math"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// GivenLease is the lease of a lock that was granted to a waiter.
const GivenLease = 3 * time.Second

// Entry is a client's entry in the turns of a lock. An empty one takes no turn.
type Entry string

// ToGive is an entry whose owner is granted the lock when its turn comes, for
// [GivenLease].
func ToGive(owner string) Entry { return Entry(owner) }

// ToGiveBriefly is an entry whose owner is granted the lock when its turn comes, for a
// second, in which it asks for a lease of its own.
func ToGiveBriefly(owner string) Entry { return Entry("?" + owner) }

// Standing is what a request with an entry learns of it.
type Standing struct {
	Before int32 // how many entries come first
	New    bool  // it did not exist: it may have been granted the lock since its last request
	Came   bool  // it holds the lock after its turn came: if it had an entry, it was notified
}

// standing reads a Standing from the end of a refusal.
func standing(v driver.Value) Standing {
	return Standing{Before: int32(min(v.At(4).Int(), math.MaxInt32)), New: v.At(5).Int() == 1}
}

// addEntry makes the entry an argument of a call that uses the turns of the lock key.
func (a Attempt) addEntry(call *driver.Call, key string) {
	if a.Entry != "" {
		call.Keys = append(call.Keys, keyspace.Turns(key))
		if call.Args = append(call.Args, string(a.Entry)); a.Yields {
			call.Args = append(call.Args, "yields")
		}
	}
}

// Turns says how a release of a lock passes it to the next turn. Without a
// command the lock has no turns.
type Turns struct {
	Command string        // which publishes on the channels of clients
	Row     int           // how many grants in a row came before
	Shared  bool          // threads of Redisson's are known to take part
	Keep    bool          // the lock must not be left to them even so
	Vain    int           // how often in a row they have not used their chance
	KeepFor time.Duration // for how long they have none, because of that

	Room *ReleaseRoom // for the words of one call; may be nil
}

// ReleaseRoom has room for the words of the script that releases a lock. The caller has it together with
// something else that every release needs. It serves one call only: a driver may send the words after the
// caller has left.
type ReleaseRoom [10]string

func (t Turns) with() string {
	with := ""
	switch {
	case t.Keep:
		with = "keep"
	case t.Shared:
		with = "shared"
	}
	if with != "" && t.Vain > 0 {
		with += fmt.Sprintf(" %d %d", t.Vain, max(t.KeepFor, 0).Milliseconds())
	}
	return with
}

// denied reports whether a release failed for lack of rights, maybe to its turns: a user without
// rights to them can acquire the lock, and must be able to release it.
func (t Turns) denied(err error) bool {
	return err != nil && t.Command != "" && driver.ClassOf(err) == driver.Denied
}

// turnless is the error for a release that Redis admitted only without its turns, for which it said why.
func turnless(why error) error {
	return &driver.Error{Class: driver.Denied, Err: fmt.Errorf("released, but not to the next client: %w", why)}
}
