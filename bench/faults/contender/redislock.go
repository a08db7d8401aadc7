package contender

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

var redislockSystem = &System{
	Name:   "redislock",
	Module: "github.com/bsm/redislock",
	Setting: "go-redis with its defaults, as in the README of redislock; Obtain with LinearBackoff of 100 ms, as in its examples; " +
		"Lock.Refresh in a loop, every third of the lease",
	Key:     itself,
	Tells:   ByLoop,
	Check:   "Lock.TTL, which asks Redis",
	Open:    openRedislock,
	Refused: matches(redislock.ErrNotObtained),
	Gone:    matches(redislock.ErrLockNotHeld),
}

type redislockClient struct {
	client *goredis.Client
	lease  time.Duration
}

func openRedislock(_ context.Context, c Config) (Client, error) {
	return &redislockClient{goredis.NewClient(&goredis.Options{Addr: c.Addr}), cmp.Or(c.Lease, 30*time.Second)}, nil
}

func (r *redislockClient) Close() { _ = r.client.Close() } // a client at its end

func (r *redislockClient) Lock(ctx context.Context, name string, wait time.Duration) (Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l, err := redislock.New(r.client).Obtain(ctx, name, r.lease, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return nil, err
	}
	h := &redislockHold{l: l}
	h.loop = renewing(r.lease, func(ctx context.Context) (bool, error) {
		err := l.Refresh(ctx, r.lease, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			return false, nil
		}
		return err == nil, err
	})
	return h, nil
}

type redislockHold struct {
	loop *loop
	l    *redislock.Lock
}

func (h *redislockHold) Lost() <-chan struct{} { return h.loop.lost }
func (h *redislockHold) Token() int64          { return 0 }

func (h *redislockHold) Check() error {
	ttl, err := h.l.TTL(context.Background())
	if err == nil && ttl <= 0 {
		err = redislock.ErrLockNotHeld
	}
	return err
}

func (h *redislockHold) Unlock() error {
	h.loop.stop()
	return h.l.Release(context.Background())
}
