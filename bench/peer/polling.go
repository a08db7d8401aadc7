package peer

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/mortise-go/mortise/internal/workload"
)

// pollPause is how long a poller sleeps between two tries.
const pollPause = 5 * time.Millisecond

var polling = &System{
	Name:   "polling",
	Module: "github.com/redis/rueidis",
	Settings: "a number in Redis: one script takes a permit if there is one; a goroutine that gets none sleeps for 5 ms and tries again; " +
		"the release is INCR; no lease, no order; rueidis",
	Sends:   []string{"set", "incr"},
	Permits: true,
	Open:    openPolling,
}

// pollTake takes a permit of KEYS[1], if there is one.
const pollTake = `if tonumber(redis.call('get', KEYS[1]) or 0) < 1 then return 0 end
redis.call('decr', KEYS[1])
return 1`

func openPolling(ctx context.Context, addr string) (workload.Locker, func(), error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, nil, err
	}
	take, err := loadRaw(ctx, client, pollTake)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return poller{client, take}, client.Close, nil
}

// poller takes permits by asking until there is one.
type poller struct {
	client rueidis.Client
	take   rawScript
}

func (p poller) Lock(ctx context.Context, key string) (workload.Hold, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n, err := p.take.run(ctx, []string{key}, nil)
		if err != nil || n == 1 {
			return polled{p, key}, err
		}
		pause.Reset(pollPause)
	}
}

// Permit implements [workload.Permitter].
func (p poller) Permit(ctx context.Context, key string, n int) error {
	return setOnce(ctx, p.client, key, n)
}

// polled is a permit.
type polled struct {
	poller
	key string
}

func (h polled) Unlock() error {
	return h.client.Do(context.Background(), h.client.B().Incr().Key(h.key).Build()).Error()
}
