package peer

import (
	"context"
	"slices"
	"sync"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

var inProcess = &System{
	Name:     "limit: in the process",
	Module:   "github.com/redis/rueidis",
	Settings: "goroutines in a queue pass a lock on; raw/rueidis gives it back and takes it anew after 64 passes",
	Limit:    true,
	Open:     openPassing(openRaw(rawAcquire, rawRelease, false)),
}

var passingGranted = &System{
	Name:     "limit: in the process and granted",
	Module:   "github.com/redis/rueidis",
	Settings: "the same, over the queue of limit: granted",
	Limit:    true,
	Open:     openPassing(openGranting(grantedAcquire, grantedRelease)),
}

// passes is how often a process passes a lock on internally before other processes get it.
const passes = 64

// openPassing makes the goroutines of a process queue for the locks of another system, and pass
// them on.
func openPassing(open rig.Open) rig.Open {
	return func(ctx context.Context, addr string) (workload.Locker, func(), error) {
		inner, end, err := open(ctx, addr)
		if err != nil {
			return nil, nil, err
		}
		return &lines{inner: inner, byKey: make(map[string]*line)}, end, nil
	}
}

// lines has one line of goroutines for each lock.
type lines struct {
	inner workload.Locker

	mu    sync.Mutex // guards the fields below
	byKey map[string]*line
}

func (l *lines) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return l.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (l *lines) Of(key string) workload.Locker {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.byKey[key]
	if k == nil {
		inner := l.inner
		if n, ok := inner.(workload.Namer); ok {
			inner = n.Of(key)
		}
		k = &line{inner: inner}
		l.byKey[key] = k
	}
	return k
}

// line is the goroutines that wait for one lock, and its hold.
type line struct {
	inner workload.Locker

	mu      sync.Mutex // guards the fields below
	busy    bool       // the lock is held, or about to be
	waiting []chan turn
	spare   []chan turn
	hold    workload.Hold
	passed  int
}

// turn is what a goroutine must do when its turn comes.
type turn int

const (
	pass turn = iota // the lock is held
	ask              // acquire the lock from the other system
)

func (k *line) Lock(ctx context.Context, key string) (workload.Hold, error) {
	k.mu.Lock()
	if !k.busy {
		k.busy = true
		k.mu.Unlock()
		return k.take(ctx, key)
	}
	var mine chan turn
	if n := len(k.spare); n > 0 {
		mine, k.spare = k.spare[n-1], k.spare[:n-1]
	} else {
		mine = make(chan turn, 1)
	}
	k.waiting = append(k.waiting, mine)
	k.mu.Unlock()
	select {
	case t := <-mine:
		return k.have(ctx, key, mine, t)
	case <-ctx.Done():
		return nil, k.quit(ctx, mine)
	}
}

// have uses a turn.
func (k *line) have(ctx context.Context, key string, mine chan turn, t turn) (workload.Hold, error) {
	k.mu.Lock()
	k.spare = append(k.spare, mine)
	k.mu.Unlock()
	if t == ask {
		return k.take(ctx, key)
	}
	return k, nil
}

// take acquires the lock for the whole line.
func (k *line) take(ctx context.Context, key string) (workload.Hold, error) {
	hold, err := k.inner.Lock(ctx, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.next(ask)
		return nil, err
	}
	k.hold, k.passed = hold, 0
	return k, nil
}

// next gives the turn to the first waiter. The caller must hold mu.
func (k *line) next(t turn) {
	if len(k.waiting) == 0 {
		k.busy = false
		return
	}
	first := k.waiting[0]
	k.waiting = append(k.waiting[:0], k.waiting[1:]...)
	first <- t
}

// quit leaves the line. If the turn comes at that moment, quit passes it on.
func (k *line) quit(ctx context.Context, mine chan turn) error {
	k.mu.Lock()
	i := slices.Index(k.waiting, mine)
	if i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
	k.mu.Unlock()
	if i < 0 {
		if t := <-mine; t == ask {
			k.mu.Lock()
			k.next(ask)
			k.mu.Unlock()
		} else if err := k.Unlock(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Unlock implements [workload.Hold]: the line is the hold of its lock.
func (k *line) Unlock() error {
	k.mu.Lock()
	if len(k.waiting) > 0 && k.passed < passes-1 {
		k.passed++
		k.next(pass)
		k.mu.Unlock()
		return nil
	}
	hold := k.hold
	k.mu.Unlock()
	err := hold.Unlock()
	k.mu.Lock()
	k.next(ask)
	k.mu.Unlock()
	return err
}
