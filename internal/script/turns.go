package script

import (
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// GivenLease is the lease of a lock that was given to one who waited.
const GivenLease = 3 * time.Second

// Entry is that of a client in the turns of a lock. Without one it takes no turn.
type Entry string

// ToGive is the entry of one to whom the lock is given when its turn comes, for
// [GivenLease].
func ToGive(owner string) Entry { return Entry(owner) }

// ToTell is the entry of one who is told then that the lock is free. The id is
// not that of an owner.
func ToTell(id string) Entry { return Entry("?" + id) }

// Standing is what one who asks with an entry is told of it.
type Standing struct {
	Before int  // so many come first
	New    bool // it was not there: it may have been given the lock since it asked before
	Came   bool // it has the lock, and its turn had come before: if it had an entry, it was told so
}

// standing reads it from the end of a refusal.
func standing(v driver.Value) Standing {
	return Standing{Before: int(v.At(4).Int()), New: v.At(5).Int() == 1}
}

// add makes the entry in the turns of the lock key part of a call.
func (e Entry) add(call *driver.Call, key string) {
	if e != "" {
		call.Keys = append(call.Keys, keyspace.Turns(key))
		call.Args = append(call.Args, string(e))
	}
}

// Turns says how whoever releases a lock lets the next one have it. Without a
// command nobody takes turns.
type Turns struct {
	Command string // that publishes on the channels of clients
	Row     int    // how often in a row the lock was given
	Shared  bool   // threads of Redisson's are known to take part
	Keep    bool   // the lock is not to be left to them even so
}

func (t Turns) with() string {
	switch {
	case t.Keep:
		return "keep"
	case t.Shared:
		return "shared"
	}
	return ""
}
