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
	Setting:      "rueidis with its defaults; Lock, FencedLock or FairLock with Options.TTL for the lease, else their defaults (renewed every third of it); AcksAll where there are replicas, and Redlock where there are independent servers",
	Key:          itself,
	Tells:        ByLibrary,
	Check:        "ctx.Err, without Redis",
	Subscribes:   true,
	Reenters:     true,
	Fenced:       true,
	Fair:         true,
	Acknowledges: true,
	Majority:     true,
	Open:         openMortise,
	Refused:      matches(mortise.ErrLocked),
	Gone:         matches(mortise.ErrLost),
}

// mortiseDefault takes part where it matters that no replica is asked by default.
var mortiseDefault = func() *System {
	s := *mortiseSystem
	s.Name, s.Variant = "mortise-default", "r8"
	s.Setting = "the same without AcksAll: no replica is asked, which is the default"
	s.Acknowledges, s.Majority = false, false
	return &s
}()

type mortiseClient struct {
	rueidis []rueidis.Client
	clients []*mortise.Client // one for each server
	config  Config
}

func openMortise(_ context.Context, c Config) (Client, error) {
	m := &mortiseClient{config: c}
	nodes := c.Nodes
	if nodes == nil {
		nodes = []string{c.Addr}
	}
	for _, addr := range nodes {
		r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			m.Close()
			return nil, err
		}
		m.rueidis = append(m.rueidis, r)
		m.clients = append(m.clients, mortise.New(mortiserueidis.Wrap(r), &mortise.Options{TTL: c.Lease, FairWait: c.FairWait}))
	}
	return m, nil
}

func (m *mortiseClient) Close() {
	for i, client := range m.clients {
		client.Close()
		m.rueidis[i].Close()
	}
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
	var l locks = m.clients[0].Lock(name).With(o)
	switch {
	case m.config.Fenced:
		l = m.clients[0].FencedLock(name).With(o)
	case m.config.Fair:
		l = m.clients[0].FairLock(name).With(o)
	case len(m.config.Nodes) > 0:
		l = mortise.NewRedlock(name, m.clients...).With(o)
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
