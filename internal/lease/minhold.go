package lease

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// A lease with a MinHold that is released before leaves the lock taken: the script replaces
// its id by another one, which no client holds, and lets the key last until the MinHold is
// over. So neither a late copy of a renewal nor one of an acquisition can touch it, and nobody
// re-enters it. It announces nothing: nobody can have the lock yet. A writer whose owner goes on
// as a reader keeps nothing: its release is an ordinary one.

// keeper is implemented by the operations of a kind whose released locks can stay taken.
type keeper interface {
	// Keep releases id, but leaves the lock taken for that long; with longer set, for no less
	// than it would last anyway. A repeat changes nothing more. Without longer, it may be an
	// ordinary release instead, as Ops.Release.
	Keep(ctx context.Context, id string, left time.Duration, longer bool) (script.Released, error)
}

var ErrKeeps = outcome.Invalid("MinHold is for a Lock, FencedLock, SpinLock, FairLock or the write side of an RWLock by itself; nothing else stays taken after its release")

// least returns until when the lock stays taken, as its first hold has asked; zero if that is
// not asked.
func (l *Lease) least() (least time.Time) {
	if l.options.MinHold != 0 { // else first may belong to another hold by now
		if b, ok := l.first.parent.(*bounds); ok {
			least = b.least
		}
	}
	return least
}

// Keeps reports whether the lock stays taken if it is released now.
func (l *Lease) Keeps() bool {
	least := l.least()
	return !least.IsZero() && time.Now().Before(least)
}

// keep releases the lease, but leaves the lock taken until its MinHold is over.
func (l *Lease) keep(ctx context.Context, longer bool) (bool, error) {
	became, err := l.ops.(keeper).Keep(ctx, l.id, max(time.Until(l.least()), time.Millisecond), longer)
	if became > script.ReleasedNow { // it was an ordinary release
		l.client.waiters.Passed(l.Lock, script.Freed{Released: became})
	}
	return became != script.NotHeld, err
}

// keepLost is keep for a lease that was lost, but may still be in Redis. It tries for as long as
// the key may last.
func (l *Lease) keepLost(ctx context.Context) {
	ttl, _ := l.maxTTLAndCount()
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	_, _ = l.client.Call(ctx, -1, func(ctx context.Context) error {
		_, err := l.keep(ctx, false)
		return err
	})
}

// keepClosed is keep for the lease of a client that is closed: the work under it may go on, so
// the key lasts no less than before.
func (l *Lease) keepClosed(ctx context.Context) { _, _ = l.keep(ctx, true) }
