// Package keyspace has the name of every key and channel that mortise uses, and the rules for
// names chosen by users.
//
// A derived key is a prefix, a colon, and the lock's name in braces, so that the cluster puts
// both into one slot. A name that already contains an opening brace is not wrapped again
// (org.redisson.RedissonObject, prefixName). So the names job and {job} share what Redisson
// derives from them. No two names share what mortise derives for itself.
package keyspace

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxName is the longest name allowed, in bytes.
const MaxName = 512

// Slots is the number of slots of a Redis Cluster.
const Slots = 16384

// LockChannel is the channel that announces releases of the lock name.
func LockChannel(name string) string { return prefixed("redisson_lock__channel", name) }

// FairQueue is the list of the waiters for the fair lock name.
func FairQueue(name string) string { return prefixed("redisson_lock_queue", name) }

// FairDeadlines is the sorted set of the instants at which Redisson gives up on each waiter
// for the fair lock name.
func FairDeadlines(name string) string { return prefixed("redisson_lock_timeout", name) }

// FairOurs is the hash of mortise's own waiters for the fair lock name.
func FairOurs(name string) string { return own("mortise:fair_waiters", name) }

// FairSigns is the hash of signs of life around the fair lock name.
func FairSigns(name string) string { return own("mortise:fair", name) }

// FairChannel is the channel on which a waiter for the fair lock name is notified that its turn
// has come.
func FairChannel(name, waiter string) string { return LockChannel(name) + ":" + waiter }

// FairTurnChannel is the channel on which a client is notified that the turn of one of its
// waiters for the fair lock name has come.
func FairTurnChannel(name, client string) string {
	return own("mortise:fair_turn", name) + ":" + client
}

// Heeds is the channel to which a mortise client subscribes in addition to a channel of Redisson's.
// It lets others count the subscribers of the latter that are Redisson's: the rest.
func Heeds(channel string) string { return heeds + channel }

const heeds = "mortise:heeds:"

// Token is the number of the last acquisition of the fenced lock name.
func Token(name string) string { return prefixed("redisson_lock_token", name) } // as tokenKeys

// RWChannel is the channel that announces releases of the read/write lock name.
func RWChannel(name string) string { return prefixed("redisson_rwlock", name) }

// RWHolds is the prefix of the keys of the read holds of the read/write lock name
// (org.redisson.RedissonObject, suffixName).
func RWHolds(name string) string { return braced(name) }

// ElectionChannel is the channel on which the candidates of the election name are notified that
// there is no leader.
func ElectionChannel(name string) string { return own("mortise:election", name) }

// ElectionNews is the channel that announces every change of the election name to its
// observers.
func ElectionNews(name string) string { return own("mortise:election_news", name) }

// Turns is the sorted set of the mortise clients that wait for the plain lock name.
func Turns(name string) string { return own("mortise:turns", name) }

// TurnChannel is the channel on which a client is notified that its turn for the lock name has
// come.
func TurnChannel(name, client string) string { return own("mortise:turn", name) + ":" + client }

// ReleaseNames returns LockChannel(name), Turns(name) and TurnChannel(name, "") as parts of one
// string, because every release needs them.
func ReleaseNames(name string) (channel, turns, clients string) {
	before, end, after := "{", "}", "}"
	if strings.Contains(name, "{") {
		before, end, after = "", "", "::"
	}
	all := "redisson_lock__channel:" + before + name + end + "mortise:turns:" + before + name + after + "mortise:turn:" + before + name + after + ":"
	first := len("redisson_lock__channel:") + len(before) + len(name) + len(end)
	second := first + len("mortise:turns:") + len(before) + len(name) + len(after)
	return all[:first], all[first:second], all[second:]
}

// BarrierOutcomes is the prefix of the keys with the outcomes of the parties of the barrier
// name.
func BarrierOutcomes(name string) string { return own("mortise:barrier", name) }

// BarrierChannel is the channel on which the parties of the barrier name are notified of their
// outcomes.
func BarrierChannel(name string) string { return own("mortise:barrier_channel", name) }

// PermitExpiries is the sorted set of the permits of the semaphore name that are given out, with
// the instants at which they expire.
func PermitExpiries(name string) string { return braced(name) + permitEnds }

// SemaphoreChannel is the channel that announces permits of the semaphore name, of either kind.
func SemaphoreChannel(name string) string { return prefixed("redisson_sc", name) }

// Claims is the hash of the waiters for permits of the semaphore name, of either kind, and of
// how many permits mortise clients leave to each.
func Claims(name string) string { return own("mortise:claim", name) }

// LatchChannel is the channel that announces the opening of the latch name. Redisson puts the
// name in braces even if it contains some, so that on a cluster the channel of such a name is
// not in the slot of its key.
func LatchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// Fence is the newest token that a resource called name has seen.
func Fence(name string) string { return own("mortise:fence", name) } // as fenceKeys

// Operation is the key that remembers for a while what an operation on name did, so that a
// repeat changes nothing.
func Operation(name, id string) string { return own("mortise:op", name) + ":" + id }

// ClientRecord is the record of a client: what its process is, holds and waits for. Clients with
// another prefix of names have other records.
func ClientRecord(prefix, client string) string { return own("mortise:client", prefix+client) }

// ClientIndex is the sorted set of the clients that have records.
func ClientIndex(prefix string) string { return own("mortise:clients", prefix+"all") }

// ClientChannel is the channel on which a client is told to look at its record.
func ClientChannel(prefix, client string) string { return own("mortise:ask", prefix+client) }

// History is the stream of the last acquisitions of the lock name.
func History(name string) string { return own("mortise:history", name) }

// own is a key or channel of mortise's own for name. No two names share one: a name with an
// opening brace, which is not wrapped, is followed by two colons. They come last so that the
// same access rules match both.
func own(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name + "::"
	}
	return prefix + ":{" + name + "}"
}

// prefixed is a key or channel of Redisson's for name. Those of job and of {job} are the same.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// braced is name in braces, unless it contains some.
func braced(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// ErrEmpty is the error for a name without any text.
var ErrEmpty = errors.New("the name is empty")

// CheckPrefix returns an error that says why no name may begin with prefix, or nil. With any set,
// it refuses only what no deployment can work with. Each name is checked again with its prefix.
func CheckPrefix(prefix string, any bool) error {
	switch {
	case prefix == "":
		return nil
	case len(prefix) >= MaxName:
		return fmt.Errorf("it has %d bytes; together with a name at most %d are allowed", len(prefix), MaxName)
	}
	return Check(prefix+"x", any)
}

// Check returns an error that says what is wrong with name, or nil. With any set, it refuses
// only what no deployment can work with; otherwise also reserved names, and names that could
// not be unlocked on a cluster.
func Check(name string, any bool) error {
	switch {
	case name == "":
		return ErrEmpty
	case any:
		return nil // other programs may use it
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes; at most %d are allowed", len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name is not valid UTF-8")
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("the name contains the control character %U", r)
		}
	}
	if strings.HasPrefix(name, "redisson_") || strings.HasPrefix(name, "mortise:") {
		return fmt.Errorf("the prefixes %q and %q are reserved for the other keys of locks", "redisson_", "mortise:")
	}
	if readHold.MatchString(name) {
		return fmt.Errorf("names that end with %q and a number are reserved for the holds of readers", ":rwlock_timeout:")
	}
	if err := CheckSlot(name); err != nil {
		return err
	}
	return checkPermitEnds(name)
}

// permitEnds is what PermitExpiries ends with.
const permitEnds = ":timeout"

// ErrPermitEnds is the error for a name that is the key of a semaphore's permits.
var ErrPermitEnds = fmt.Errorf("names that have braces and end with %q are reserved", permitEnds)

// checkPermitEnds refuses what is PermitExpiries of another name. That key always has a brace, and
// is in the slot of its name.
func checkPermitEnds(name string) error {
	semaphore, ok := strings.CutSuffix(name, permitEnds)
	if !ok || !strings.Contains(semaphore, "{") {
		return nil
	}
	if inner, ok := unbraced(semaphore); ok {
		semaphore = inner
	}
	return fmt.Errorf("%w: a PermitSemaphore called %q keeps the ends of its permits there; use a name without braces, or with another end", ErrPermitEnds, semaphore)
}

// readHold matches the keys of the holds of readers, which begin with the name of the lock.
var readHold = regexp.MustCompile(`:rwlock_timeout:[0-9]+$`)

// CheckPermits returns an error for a name in braces: Redisson keeps its permits under the same
// key as those of the name without braces.
func CheckPermits(name string) error {
	if inner, ok := strings.CutPrefix(name, "{"); ok && strings.Index(inner, "}") == len(inner)-1 && !strings.Contains(inner, "{") {
		return fmt.Errorf("the permits of %q would lie under the same key as those of %q; use a name that is more than a pair of braces", name, inner[:len(inner)-1])
	}
	return nil
}

// CheckSlot returns an error if the keys derived from name would not be in the slot of name
// itself. Such a lock could be acquired on a cluster, but never released.
func CheckSlot(name string) error {
	if !strings.ContainsAny(name, "{}") || hashed(prefixed("p", name)) == hashed(name) {
		return nil
	}
	return fmt.Errorf("the braces in the name would put its keys into different cluster slots; " +
		"use no braces, or one closed pair around the part that decides the slot, as in {order}:42")
}

// hashed returns the part of key that the cluster hashes: the text between the first opening
// brace and the next closing one, if that is not empty.
func hashed(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return key
	}
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

// Slot returns the cluster slot of key.
func Slot(key string) uint16 {
	crc := uint16(0)
	for _, b := range []byte(hashed(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % Slots
}
