package peer

import (
	"context"
	"time"

	"github.com/bsm/redislock"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

var redislockSystem = &System{
	Name:     "redislock",
	Module:   "github.com/bsm/redislock",
	Settings: "go-redis; 30 s; LinearBackoff of 100 ms, as in its README; no renewal",
	Open:     openRedislock(100 * time.Millisecond),
}

var redislockFast = &System{
	Name:     "redislock-5ms",
	Module:   "github.com/bsm/redislock",
	Settings: "go-redis; 30 s; LinearBackoff of 5 ms; no renewal",
	Open:     openRedislock(5 * time.Millisecond),
}

func openRedislock(backoff time.Duration) rig.Open {
	return func(_ context.Context, addr string) (workload.Locker, func(), error) {
		client := newGoredis(addr)
		locks := redislock.New(client)
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)}
		lock := func(ctx context.Context, key string) (workload.Hold, error) {
			l, err := locks.Obtain(ctx, key, 30*time.Second, options)
			if err != nil {
				return nil, err
			}
			return redislockHold{l}, nil
		}
		return lockFunc(lock), closing(client), nil
	}
}

type redislockHold struct{ l *redislock.Lock }

func (h redislockHold) Unlock() error { return h.l.Release(context.Background()) }
