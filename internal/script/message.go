package script

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Messages are hints: any client may have published one. They are parsed here; the
// waiter decides whether to believe them.

// Echo is a release message only for Redisson's threads, which read it as a number.
// Followed by a number, it is what they read as that number, and informs mortise's
// clients that the lock was left to these threads.
const Echo = "00"

// ReleaseMessage is a message on the channel on which Redisson announces releases.
type ReleaseMessage struct {
	Ours bool // a mortise client has released the lock
	Left bool // and left it to Redisson's threads
	// Times is how often in a row the lock is theirs then.
	Times int
}

// ParseRelease parses such a message.
func ParseRelease(message string) ReleaseMessage {
	ours := strings.HasPrefix(message, Echo)
	zeros := len(message) - len(strings.TrimLeft(message, "0"))
	times := min(zeros, len(message)-1) - len(Echo) // the number after the zeros may be 0
	switch {
	case !ours || times < 0 || times == 1:
		return ReleaseMessage{Ours: ours}
	case times == 0:
		return ReleaseMessage{Ours: true, Left: true, Times: 1}
	}
	return ReleaseMessage{Ours: true, Left: true, Times: times}
}

// TurnMessage is a message on the channel of a client that takes turns.
type TurnMessage struct {
	Granted string // the id that has the lock now; empty if the message grants nothing
	Row     int    // how often in a row the lock was granted, including this time
	Left    bool   // the lock was left to Redisson's threads for a moment
	Times   int    // so often in a row

	Shared  bool          // Redisson's threads listen
	Vain    int           // how often in a row they have not used their chance
	KeepFor time.Duration // for how long they have none, because of that
}

// mostVain is the number of chances in vain that a message can claim, and longestKept the time.
const (
	mostVain    = 100
	longestKept = time.Second
)

// ParseTurn parses such a message.
func ParseTurn(message string) TurnMessage {
	var m TurnMessage
	words := strings.Split(message, " ")
	times, left := strings.CutPrefix(words[0], "~")
	known := words[1:]
	switch {
	case left:
		m.Left, m.Times = true, 1
		if n, err := strconv.Atoi(times); err == nil && n >= 1 && n <= 100 {
			m.Times = n
		}
	case len(words) > 1:
		m.Granted = words[0]
		m.Row, _ = strconv.Atoi(words[1])
		known = words[2:]
	}
	if len(known) == 2 && m != (TurnMessage{}) {
		vain, _ := strconv.Atoi(known[0])
		ms, _ := strconv.Atoi(known[1])
		m.Shared, m.Vain, m.KeepFor = true, min(max(vain, 0), mostVain), min(time.Duration(max(ms, 0))*time.Millisecond, longestKept)
	}
	return m
}

// FairMessage is a message on the channel of a client with waiters in the queue of a
// fair lock.
type FairMessage struct {
	Waiter string
	Nonce  string // the nonce of the waiter that has the lock now; empty if it is only to ask
	Look   bool
}

// ParseFair parses such a message.
func ParseFair(message string) FairMessage {
	if waiter, told := strings.CutPrefix(message, "?"); told {
		return FairMessage{Waiter: waiter, Look: true}
	}
	waiter, nonce, _ := strings.Cut(message, " ")
	return FairMessage{Waiter: waiter, Nonce: nonce}
}

// The UUIDs of mortise's clients have version 8, whose other bits are free for any
// use. Redisson's clients, which have the same form otherwise, have version 4.
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

// IsMortise reports whether an owner is of a mortise client, which notifies the next
// one when it releases.
func IsMortise(owner string) bool { return len(owner) > versionAt && owner[versionAt] == version }
