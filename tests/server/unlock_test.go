package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The network falls silent, or the server is gone, before a release. Unlock returns soon, and
// the lock is free soon after Redis can be reached again, long before its lease ends.
func TestRealUnlockIsBounded(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		for name, fault := range map[string]struct{ begin, end func(p *redistest.Proxy) }{
			"silent": {
				func(p *redistest.Proxy) { p.Stall(redistest.Requests, redistest.Replies) },
				func(p *redistest.Proxy) { p.CutAll(); p.Flow() },
			},
			"gone": {
				func(p *redistest.Proxy) { p.Refuse(); p.CutAll() },
				func(p *redistest.Proxy) { p.Accept(t) },
			},
		} {
			p := redistest.NewProxy(t, s.Addr())
			c := dial(p.Addr(), nil)
			k := dial(s.Addr(), nil).Lock(name)
			hold, _ := mustLock(t, c.Lock(name), t.Context())
			fault.begin(p)
			start := time.Now()
			err := hold.Unlock()
			took := time.Since(start)
			if took < 4*time.Second {
				t.Errorf("%s: Unlock took %v, want about 5s", name, took)
			}
			b.Within("Unlock", took, 15*time.Second) // UnlockFor, the client's ReadTimeout, and as much again
			if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Unlock: %v, want ErrUnreachable, and not the error of a context", name, err)
			}
			if _, _, err := k.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("%s: TryLock of another client: %v, want ErrLocked", name, err)
			}
			fault.end(p)
			back := time.Now()
			other, _ := mustLock(t, k, t.Context())
			b.Within("the next acquisition, once Redis is back", time.Since(back), 8*time.Second)
			mustUnlock(t, other)
		}
	})
}
