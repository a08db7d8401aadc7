package script

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// Messages are hints: anybody may have published one. What they say is read here,
// and believed, or not, by who waits for it.

// Echo is a release message for Redisson's threads alone, which read it as a number.
// With a digit behind it, it is what they read as that digit, and tells mortise's
// clients that the lock was left to these threads.
const Echo = "00"

// ReleaseMessage is what is published on the channel on which Redisson announces
// releases.
type ReleaseMessage struct {
	Ours bool // a mortise client has released the lock
	Left bool // and left it to Redisson's threads
}

// ParseRelease reads such a message.
func ParseRelease(message string) ReleaseMessage {
	ours := strings.HasPrefix(message, Echo)
	return ReleaseMessage{Ours: ours, Left: ours && len(message) == len(Echo)+1}
}

// TurnMessage is what is published on the channel of a client that takes turns.
type TurnMessage struct {
	Granted string // the id that has the lock now; empty if the client is only told to look
	Row     int    // how often in a row the lock was granted, with that
	Left    bool   // the lock was left to Redisson's threads for a moment
}

// ParseTurn reads such a message.
func ParseTurn(message string) TurnMessage {
	if id, row, granted := strings.Cut(message, " "); granted {
		n, _ := strconv.Atoi(row)
		return TurnMessage{Granted: id, Row: n}
	}
	return TurnMessage{Left: message == "~"}
}

// FairMessage is what is published on the channel of a client with waiters in the
// queue of a fair lock.
type FairMessage struct {
	Waiter string
	Nonce  string // with which the waiter has the lock now; empty if it is only told to look
	Look   bool
}

// ParseFair reads such a message.
func ParseFair(message string) FairMessage {
	if waiter, told := strings.CutPrefix(message, "?"); told {
		return FairMessage{Waiter: waiter, Look: true}
	}
	waiter, nonce, _ := strings.Cut(message, " ")
	return FairMessage{Waiter: waiter, Nonce: nonce}
}

// The version of the UUIDs of mortise's clients is 8, which leaves the rest to those
// who make them. Redisson's clients, whose form they have otherwise, have version 4.
const (
	version   = '8'
	versionAt = 14
)

// NewClientID returns a random UUID for a client.
func NewClientID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | (version-'0')<<4
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// IsMortise reports whether an owner is of a mortise client, which tells the next
// one when it releases.
func IsMortise(owner string) bool { return len(owner) > versionAt && owner[versionAt] == version }
