package peer

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/mortise-go/mortise/internal/workload"
)

var ownerChanged = &System{
	Name:     "limit: owner changed",
	Module:   "github.com/redis/rueidis",
	Settings: "goroutines of one process in a queue; one script makes the next one the owner; rueidis",
	Limit:    true,
	Open:     openOwnerChanged,
}

// ownerChange passes the lock KEYS[1] from owner ARGV[1] to ARGV[2], for ARGV[3] ms.
const ownerChange = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

func openOwnerChanged(ctx context.Context, addr string) (workload.Locker, func(), error) {
	inner, end, err := openRaw(rawAcquire, rawRelease, false)(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	raw := inner.(rawLocker)
	change, err := loadRaw(ctx, raw.client, ownerChange)
	if err != nil {
		end()
		return nil, nil, err
	}
	return &heirs{raw: raw, change: change, id: newID(), byKey: make(map[string]*heirLine)}, end, nil
}

// heirs has one line of goroutines for each lock; each goroutine has an id.
type heirs struct {
	raw    rawLocker
	change rawScript
	id     string

	mu     sync.Mutex // guards the fields below
	serial int
	byKey  map[string]*heirLine
}

// heirLine is the goroutines that wait for one lock.
type heirLine struct {
	keys []string

	mu      sync.Mutex // guards the fields below
	busy    bool
	waiting []*heir
}

func (h *heirs) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return h.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (h *heirs) Of(key string) workload.Locker {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.byKey[key]
	if line == nil {
		line = &heirLine{keys: []string{key}}
		h.byKey[key] = line
	}
	h.serial++
	args := []string{h.id + ":" + strconv.Itoa(h.serial), "", rawLease}
	return &heir{heirs: h, line: line, args: args, mine: make(chan struct{}, 1)}
}

// heir is one goroutine, and its hold.
type heir struct {
	*heirs
	line *heirLine
	args []string // its id, that of the next one, the lease
	mine chan struct{}
}

func (h *heir) Lock(ctx context.Context, _ string) (workload.Hold, error) {
	k := h.line
	k.mu.Lock()
	if !k.busy {
		k.busy = true
		k.mu.Unlock()
		return h, done(h.raw.acquire.run(ctx, k.keys, []string{h.args[0], rawLease}))
	}
	k.waiting = append(k.waiting, h)
	k.mu.Unlock()
	select {
	case <-h.mine:
		return h, nil
	case <-ctx.Done():
	}
	k.mu.Lock()
	i := slices.Index(k.waiting, h)
	if i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
	k.mu.Unlock()
	if i >= 0 {
		return nil, ctx.Err()
	}
	<-h.mine
	if err := h.Unlock(); err != nil {
		return nil, err
	}
	return nil, ctx.Err()
}

func (h *heir) Unlock() error {
	k := h.line
	k.mu.Lock()
	if len(k.waiting) == 0 {
		defer k.mu.Unlock() // no goroutine may ask before the key is gone
		k.busy = false
		return done(h.raw.release.run(context.Background(), k.keys, h.args[:1]))
	}
	next := k.waiting[0]
	k.waiting = append(k.waiting[:0], k.waiting[1:]...)
	k.mu.Unlock()
	h.args[1] = next.args[0]
	if err := done(h.change.run(context.Background(), k.keys, h.args)); err != nil {
		return err
	}
	next.mine <- struct{}{}
	return nil
}
