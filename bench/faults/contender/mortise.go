package contender

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/mortise-go/mortise"
	mortiserueidis "github.com/mortise-go/mortise/driver/rueidis"
)

var mortiseSystem = &System{
	Name:         "mortise",
	Module:       "github.com/mortise-go/mortise",
	Setting:      "rueidis with its defaults; Lock, FencedLock or FairLock with Options.TTL for the lease, else their defaults (renewed every third of it); AcksAll where there are replicas",
	Key:          itself,
	Tells:        ByLibrary,
	Check:        "ctx.Err, without Redis",
	Subscribes:   true,
	Reenters:     true,
	Fenced:       true,
	Fair:         true,
	Acknowledges: true,
	Open:         openMortise,
	Refused:      matches(mortise.ErrLocked),
	Gone:         matches(mortise.ErrLost),
}

type mortiseClient struct {
	rueidis rueidis.Client
	client  *mortise.Client
	config  Config
}

func openMortise(_ context.Context, c Config) (Client, error) {
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.Addr}})
	if err != nil {
		return nil, err
	}
	return &mortiseClient{r, mortise.New(mortiserueidis.Wrap(r), &mortise.Options{TTL: c.Lease, FairWait: c.FairWait}), c}, nil
}

func (m *mortiseClient) Close() {
	m.client.Close()
	m.rueidis.Close()
}

// locks is a kind of lock.
type locks interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

func (m *mortiseClient) Lock(ctx context.Context, name string, wait time.Duration) (Hold, error) {
	o := mortise.LockOptions{Wait: wait}
	if len(m.config.Replicas) > 0 {
		o.Durability.Acks = mortise.AcksAll
	}
	var l locks = m.client.Lock(name).With(o)
	switch {
	case m.config.Fenced:
		l = m.client.FencedLock(name).With(o)
	case m.config.Fair:
		l = m.client.FairLock(name).With(o)
	}
	return lockMortise(ctx, l)
}

func lockMortise(ctx context.Context, l locks) (Hold, error) {
	hold, held, err := l.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &mortiseHold{l, hold, held}, nil
}

type mortiseHold struct {
	locks locks
	hold  *mortise.Hold
	ctx   context.Context
}

func (h *mortiseHold) Lost() <-chan struct{} { return h.ctx.Done() }
func (h *mortiseHold) Check() error          { return h.ctx.Err() }
func (h *mortiseHold) Token() int64          { return h.hold.Token() }
func (h *mortiseHold) Unlock() error         { return h.hold.Unlock() }

// Again implements [Reentrant]: the owner is in the context of the hold.
func (h *mortiseHold) Again() (Hold, error) { return lockMortise(h.ctx, h.locks) }
