// Package recorder keeps what others may see of a client, and what it has read of others: its record in Redis, the histories of its locks,
// and the cycles of waits that it is part of. It decides nothing about a lock; a wait that is to fail because of a cycle fails by itself.
//
// The recorder (recorder.go) looks at what the client holds and waits for, the scene of package waiting, a moment after that has changed, and
// writes what has lasted longer. Holds that have ended become entries of histories (history.go). What fails is tried again, ever later
// (backoff.go). The records of other clients (records.go, list.go) name holders in errors, let a holder be asked to release (ask.go), and
// show cycles (cycle.go).
//
// It must not know how a lock is waited for: it reads a [waiting.Scene], and ends a wait only by [waiting.Queues.EndWait]. A client tells
// it by [lease.Recorder] that something has changed, or ended.
//
// A recorder looks once at a time: what only looks use needs no mutex. Its mutex guards when the next look comes and what is not yet
// written; it follows Client.Mu. What was read of others has one of its own.
package recorder
