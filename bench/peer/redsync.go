package peer

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/internal/workload"
)

var redsyncSystem = &System{
	Name:     "redsync",
	Module:   "github.com/go-redsync/redsync/v4",
	Settings: "go-redis; its defaults: 8 s, 32 tries, 50 to 250 ms apart; no renewal",
	Sends:    []string{"set"},
	Open: func(_ context.Context, addr string) (workload.Locker, func(), error) {
		client := newGoredis(addr)
		sync := redsync.New(redsyncgoredis.NewPool(client))
		lock := func(ctx context.Context, key string) (workload.Hold, error) {
			m := sync.NewMutex(key)
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return redsyncHold{m}, nil
		}
		return lockFunc(lock), closing(client), nil
	},
}

// newGoredis returns a client with the defaults of go-redis.
func newGoredis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr})
}

type redsyncHold struct{ m *redsync.Mutex }

func (h redsyncHold) Unlock() error {
	ok, err := h.m.Unlock()
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}
