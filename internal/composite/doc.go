// Package composite acquires and holds several locks as one: a [Batch] (MultiLock) needs all of them, a [Quorum] (Redlock) more than half.
//
// The hold of both is a composite (composite.go): it lasts as long as enough of its members do. It is forming until it has what it needs,
// then held, and in the end lost or released. Members are acquired by package waiting like any lock, but are parts: only the whole has a
// limit and is reported. They are released together (release.go), with one script where that is possible (scriptgroup.go).
//
// A Batch holds nothing while it waits: it waits for one lock like a waiter that wants only that, and acquires the others then
// (batch_request.go). After some rounds it keeps what it has, in the order that all processes use (batch.go). A Quorum asks its servers in
// rounds (quorum_round.go), from the queue of its process (quorum_request.go), woken by the releases on each server
// (quorum_subscriptions.go).
//
// It must not know what a lease does in Redis, nor who waits for what besides.
//
// A composite has a mutex for its members and its state. It is never held while a lease is asked, whose end calls the composite.
package composite
