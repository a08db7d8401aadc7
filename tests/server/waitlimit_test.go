package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Redis is behind a network that swallows everything, or is gone, during the whole wait: a
// waiter and the one behind it in the same process say so, in time, and do not call the lock
// held.
func TestRealBlackHole(t *testing.T) {
	const limit = 500 * time.Millisecond
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		for name, fault := range map[string]struct {
			begin func(p *redistest.Proxy)
			known bool // the client has used Redis before
			gone  bool // so that connecting fails
		}{
			"never answers":     {begin: func(p *redistest.Proxy) { p.Stall(redistest.Requests, redistest.Replies) }},
			"falls silent":      {begin: func(p *redistest.Proxy) { p.Stall(redistest.Requests, redistest.Replies) }, known: true},
			"refuses":           {begin: func(p *redistest.Proxy) { p.Refuse(); p.CutAll() }, gone: true},
			"is gone meanwhile": {begin: func(p *redistest.Proxy) { p.Refuse(); p.CutAll() }, known: true, gone: true},
		} {
			p := redistest.NewProxy(t, s.Addr())
			c := dial(p.Addr(), nil)
			if fault.known {
				hold, _ := mustLock(t, c.Lock(name), t.Context())
				mustUnlock(t, hold)
			}
			fault.begin(p)
			late, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			k := c.Lock(name)
			waits := map[string]func() error{
				"a limit":    func() error { return lockErr(k.With(mortise.LockOptions{Wait: limit}).Lock(t.Context())) },
				"a deadline": func() error { return lockErr(k.Lock(late)) },
			}
			start := time.Now()
			errs := make(map[string]chan error)
			for by, wait := range waits {
				ended := make(chan error, 1)
				errs[by] = ended
				go func() { ended <- wait() }()
			}
			for by, ended := range errs {
				err := <-ended
				took := time.Since(start)
				if took < limit {
					t.Errorf("Redis %s: a wait with %s took %v, want %v at least", name, by, took, limit)
				}
				b.Within("a wait with "+by, took, limit+2*time.Second)
				if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLocked) || errors.Is(err, context.DeadlineExceeded) != (by == "a deadline") {
					t.Errorf("Redis %s, after %s: %v, want ErrUnreachable", name, by, err)
				}
				if _, failed := errors.AsType[*net.OpError](err); failed != fault.gone {
					t.Errorf("Redis %s, after %s: %v; it has the error of the connection: %v", name, by, err, failed)
				}
			}
			p.CutAll()
		}
	})
}

func lockErr(_ *mortise.Hold, _ context.Context, err error) error { return err }
