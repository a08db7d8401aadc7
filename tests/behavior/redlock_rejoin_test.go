package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// newUnevenProcess is newProcess with a shorter lease on the first server, so that its loss is
// noticed after a second, and that of the others after ten.
func newUnevenProcess(t *testing.T, servers []*memredis.Server) *process {
	t.Helper()
	p := newProcess(t, servers[:1], &mortise.Options{TTL: 3 * time.Second})
	rest := newProcess(t, servers[1:], nil)
	p.clients, p.faults = append(p.clients, rest.clients...), append(p.faults, rest.faults...)
	return p
}

// wantLostRedlock checks that a hold knows that it was lost.
func wantLostRedlock(t *testing.T, hold *mortise.Hold, ctx context.Context) {
	t.Helper()
	if ctx.Err() == nil || hold.Valid() || !errors.Is(context.Cause(ctx), mortise.ErrLost) {
		t.Errorf("another had the lock meanwhile, and the context says %v", context.Cause(ctx))
	}
	if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

// The majority loses the lock, and another owner has it meanwhile. The holder learns of one
// loss after the other: it must not get the first server back, as if the other were still its
// own, and then the other, and believe that it has held the lock all the while.
func TestRedlockLosesItsMajorityInTurn(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(t *testing.T, p *process, servers []*memredis.Server) (*mortise.Hold, context.Context){
		"two forget it": func(t *testing.T, p *process, servers []*memredis.Server) (*mortise.Hold, context.Context) {
			hold, ctx := mustRedlock(t, p.redlock(), t.Context())
			time.Sleep(500 * time.Millisecond)
			do(t, servers[0], "FLUSHALL")
			do(t, servers[1], "FLUSHALL")
			return hold, ctx
		},
		"one forgets it and one was never reached": func(t *testing.T, p *process, servers []*memredis.Server) (*mortise.Hold, context.Context) {
			p.faults[0].Set(refuse, nil)
			hold, ctx := mustRedlock(t, p.redlock(), t.Context())
			time.Sleep(500 * time.Millisecond) // it is not waited for any more
			do(t, servers[1], "FLUSHALL")
			p.faults[0].Set(nil, nil)
			return hold, ctx
		},
		"two forget it and one is silent": func(t *testing.T, p *process, servers []*memredis.Server) (*mortise.Hold, context.Context) {
			hold, ctx := mustRedlock(t, p.redlock(), t.Context())
			time.Sleep(500 * time.Millisecond)
			do(t, servers[0], "FLUSHALL")
			do(t, servers[1], "FLUSHALL")
			p.faults[1].Set(hang, nil)
			time.AfterFunc(12*time.Second, func() { p.faults[1].Set(nil, nil) })
			return hold, ctx
		},
		"the re-entry of an owner": func(t *testing.T, p *process, servers []*memredis.Server) (*mortise.Hold, context.Context) {
			outer, ctx := mustRedlock(t, p.redlock(), t.Context())
			hold, ctx := mustRedlock(t, p.redlock(), ctx)
			t.Cleanup(func() { _ = outer.Unlock() })
			time.Sleep(500 * time.Millisecond)
			do(t, servers[0], "FLUSHALL")
			do(t, servers[1], "FLUSHALL")
			return hold, ctx
		},
	} {
		t.Run(what, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p, other := newUnevenProcess(t, servers), newProcess(t, servers, nil)
				hold, ctx := lose(t, p, servers)
				between, _ := mustRedlock(t, other.redlock(), t.Context())
				mustUnlock(t, between)
				time.Sleep(25 * time.Second)
				wantLostRedlock(t, hold, ctx)
			})
		})
	}
}

// A hold that was lost does not keep a server that it got back before it knew: others would
// have to wait until it is released.
func TestRedlockThatIsLostKeepsNoServerThatItGotBack(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newUnevenProcess(t, servers), newProcess(t, servers, nil)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(500 * time.Millisecond)
		do(t, servers[0], "FLUSHALL")
		do(t, servers[1], "FLUSHALL")
		time.Sleep(5 * time.Second)
		if n, left := on(t, servers[:2]), on(t, servers[2:]); n != 0 || left != 1 {
			t.Errorf("it is on %d servers that have lost it, want 0, and on %d of the other, want 1", n, left)
		}
		next, _, err := other.redlock().TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantLostRedlock(t, hold, ctx)
		mustUnlock(t, next)
	})
}

// A server comes back while another is silent. It counts as soon as that one turns out to have
// kept the lock, and not before.
func TestRedlockServerThatComesBackCountsLater(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newUnevenProcess(t, servers)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(500 * time.Millisecond)
		p.faults[1].Set(hang, nil)
		do(t, servers[0], "FLUSHALL")
		time.Sleep(20 * time.Second)
		if n, left := on(t, servers), time.Until(hold.Until()); n != 3 || left < 5*time.Second || left > 10*time.Second {
			t.Errorf("it is on %d servers, want 3, and trusted for %v, want as long as the silent one", n, left)
		}
		p.faults[1].Set(nil, nil)
		time.Sleep(10 * time.Second)
		p.faults[2].Set(hang, nil)
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil || !hold.Valid() {
			t.Errorf("lost, although two servers are well: %v", context.Cause(ctx))
		}
		mustUnlock(t, hold)
		p.faults[2].Set(nil, nil)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}
