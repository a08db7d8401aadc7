package peer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

var queueGranted = &System{
	Name:     "limit: granted",
	Module:   "github.com/redis/rueidis",
	Settings: "a list in Redis; the release makes its first the owner and tells it; no care for waiters that are gone; rueidis",
	Limit:    true,
	Open:     openGranting(grantedAcquire, grantedRelease),
}

var permitsGranted = &System{
	Name:     "limit: permits granted",
	Module:   "github.com/redis/rueidis",
	Settings: "the same for a number of permits: a release gives its permit to the first of the list, or adds one to the number",
	Limit:    true,
	Permits:  true,
	Sends:    []string{"set"},
	Open:     openGranting(permitAcquire, permitRelease),
}

// KEYS[1] is the lock and KEYS[2] its queue. ARGV[1] is the id of the requester, which begins with
// the channel of its process; ARGV[2] the lease in ms.
const (
	grantedAcquire = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('rpush', KEYS[2], ARGV[1])
return 0`
	grantedRelease = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('lpop', KEYS[2])
if not next then return redis.call('del', KEYS[1]) end
redis.call('set', KEYS[1], next, 'PX', ARGV[2])
redis.call('publish', string.sub(next, 1, 36), string.sub(next, 38))
return 1`
)

// The same where KEYS[1] is a number of permits.
const (
	permitAcquire = `if tonumber(redis.call('get', KEYS[1]) or 0) > 0 then
  redis.call('decr', KEYS[1])
  return 1
end
redis.call('rpush', KEYS[2], ARGV[1])
return 0`
	permitRelease = `local next = redis.call('lpop', KEYS[2])
if not next then redis.call('incr', KEYS[1])
else redis.call('publish', string.sub(next, 1, 36), string.sub(next, 38)) end
return 1`
)

// openGranting opens a system with one script to acquire and one to release.
func openGranting(acquire, release string) rig.Open {
	return func(ctx context.Context, addr string) (workload.Locker, func(), error) {
		return openGranter(ctx, addr, acquire, release)
	}
}

func openGranter(ctx context.Context, addr, acquire, release string) (workload.Locker, func(), error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, nil, err
	}
	g := &granter{client: client, channel: newID(), waiting: make(map[string]chan struct{})}
	if g.acquire, err = loadRaw(ctx, client, acquire); err == nil {
		g.release, err = loadRaw(ctx, client, release)
	}
	if err == nil {
		err = g.listen(ctx)
	}
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return g, client.Close, nil
}

// granter acquires locks that the previous holder grants.
type granter struct {
	client           rueidis.Client
	acquire, release rawScript
	channel          string

	mu      sync.Mutex // guards the fields below
	serial  int
	waiting map[string]chan struct{}
}

// listen subscribes to the channel of this process, until the client closes.
func (g *granter) listen(ctx context.Context) error {
	confirmed := make(chan struct{})
	var once sync.Once
	hooked := rueidis.WithOnSubscriptionHook(context.Background(), func(rueidis.PubSubSubscription) {
		once.Do(func() { close(confirmed) })
	})
	ended := make(chan error, 1)
	go func() {
		ended <- g.client.Receive(hooked, g.client.B().Subscribe().Channel(g.channel).Build(), g.grant)
	}()
	select {
	case <-confirmed:
		return nil
	case err := <-ended:
		return fmt.Errorf("subscribe: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
		return fmt.Errorf("subscribe: no answer")
	}
}

func (g *granter) grant(m rueidis.PubSubMessage) {
	g.mu.Lock()
	mine := g.waiting[m.Message]
	g.mu.Unlock()
	if mine != nil {
		mine <- struct{}{}
	}
}

// Permit implements [workload.Permitter].
func (g *granter) Permit(ctx context.Context, key string, n int) error {
	return setOnce(ctx, g.client, key, n)
}

// setOnce sets a number, unless there is one.
func setOnce(ctx context.Context, client rueidis.Client, key string, n int) error {
	err := client.Do(ctx, client.B().Set().Key(key).Value(strconv.Itoa(n)).Nx().Build()).Error()
	if rueidis.IsRedisNil(err) { // there is one
		return nil
	}
	return err
}

func (g *granter) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return g.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (g *granter) Of(key string) workload.Locker {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serial++
	serial := strconv.Itoa(g.serial)
	q := &grantee{
		granter: g,
		keys:    []string{key, "queue:" + key},
		args:    []string{strings.Join([]string{g.channel, serial}, ":"), rawLease},
		mine:    make(chan struct{}, 1),
	}
	g.waiting[serial] = q.mine
	return q
}

// grantee is a goroutine that acquires a lock again and again, and its hold.
type grantee struct {
	*granter
	keys, args []string
	mine       chan struct{}
}

func (q *grantee) Lock(ctx context.Context, _ string) (workload.Hold, error) {
	n, err := q.acquire.run(ctx, q.keys, q.args)
	if err != nil || n == 1 {
		return q, err
	}
	select {
	case <-q.mine:
		return q, nil
	case <-ctx.Done(): // the queue keeps its entry: nothing is acquired after this
		return nil, ctx.Err()
	}
}

func (q *grantee) Unlock() error {
	return done(q.release.run(context.Background(), q.keys, q.args))
}
