package contender

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

var redsyncSystem = &System{
	Name:   "redsync",
	Module: "github.com/go-redsync/redsync/v4",
	Setting: "go-redis with its defaults, as in the README of redsync; WithExpiry for the lease, else its defaults (tries 50 to 250 ms apart); " +
		"Mutex.Extend in a loop, every third of the lease",
	Key:      itself,
	Tells:    ByLoop,
	Check:    "Mutex.Until, without Redis",
	Majority: true,
	Open:     openRedsync,
	Refused: func(err error) bool {
		var taken *redsync.ErrTaken
		return errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)
	},
	Gone: func(err error) bool {
		return errors.Is(err, redsync.ErrLockAlreadyExpired) || errors.Is(err, errNotUnlocked)
	},
}

var errNotUnlocked = errors.New("redsync: Unlock reports false")

type redsyncClient struct {
	clients []io.Closer
	sync    *redsync.Redsync
	lease   time.Duration
}

func openRedsync(_ context.Context, c Config) (Client, error) {
	r := &redsyncClient{lease: cmp.Or(c.Lease, 8*time.Second)}
	nodes := c.Nodes
	if nodes == nil {
		nodes = []string{c.Addr}
	}
	var pools []redis.Pool
	for _, addr := range nodes {
		client := goredis.NewClient(&goredis.Options{Addr: addr})
		r.clients = append(r.clients, client)
		pools = append(pools, redsyncgoredis.NewPool(client))
	}
	r.sync = redsync.New(pools...)
	return r, nil
}

func (r *redsyncClient) Close() {
	for _, c := range r.clients {
		_ = c.Close() // a client at its end
	}
}

// Lock implements [Client]. The number of tries is what the waiting time allows.
func (r *redsyncClient) Lock(ctx context.Context, name string, wait time.Duration) (Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m := r.sync.NewMutex(name, redsync.WithExpiry(r.lease), redsync.WithTries(1_000_000))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	h := &redsyncHold{m: m}
	h.loop = renewing(r.lease, func(ctx context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		ok, err := m.ExtendContext(ctx)
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) { // which means that the value is another's, or none
			return false, nil
		}
		return ok, err
	})
	return h, nil
}

type redsyncHold struct {
	loop *loop
	mu   sync.Mutex // guards m, which is not safe for concurrent use
	m    *redsync.Mutex
}

func (h *redsyncHold) Lost() <-chan struct{} { return h.loop.lost }
func (h *redsyncHold) Token() int64          { return 0 }

func (h *redsyncHold) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.m.Until()) {
		return errors.New("redsync: Until has passed")
	}
	return nil
}

func (h *redsyncHold) Unlock() error {
	h.loop.stop()
	ok, err := h.m.Unlock()
	if err == nil && !ok {
		err = errNotUnlocked
	}
	return err
}
