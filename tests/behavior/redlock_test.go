package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// process is what one process has: a client for each server, and the faults of
// each.
type process struct {
	clients []*mortise.Client
	faults  []*faults
}

func newProcess(t *testing.T, servers []*memredis.Server, o *mortise.Options) *process {
	t.Helper()
	p := &process{}
	for _, s := range servers {
		c, f := open(t, s, o)
		p.clients, p.faults = append(p.clients, c), append(p.faults, f)
	}
	return p
}

func (p *process) redlock() *mortise.Redlock { return mortise.NewRedlock("job", p.clients...) }

func mustRedlock(t *testing.T, k *mortise.Redlock, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

func TestRedlockExcludes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			several(t, n, func(t *testing.T, servers []*memredis.Server) {
				inside, got := 0, 0
				var all sync.WaitGroup
				start := time.Now()
				for range 4 {
					p := newProcess(t, servers, nil)
					for range 3 {
						all.Go(func() {
							for range 3 {
								err := p.redlock().Do(t.Context(), func(ctx context.Context) error {
									if inside++; inside != 1 { // unprotected but for the lock
										t.Errorf("%d are inside", inside)
									}
									time.Sleep(10 * time.Millisecond)
									inside--
									got++
									return ctx.Err()
								})
								if err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				all.Wait()
				if d := time.Since(start); got != 36 || d > 20*time.Second {
					t.Errorf("%d servers: %d turns in %v, want 36 of 10ms", n, got, d)
				}
				time.Sleep(time.Second)
				if left := on(t, servers); left != 0 {
					t.Errorf("%d servers: %d still have the lock, want 0", n, left)
				}
			})
		})
	}
}

func TestRedlockIsOnAllServers(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		hold, ctx, err := p.redlock().TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the third joins late
		if n := on(t, servers); n != 3 {
			t.Errorf("it is on %d servers, want 3", n)
		}
		wantRedlockRefused(t, other, hold)
		time.Sleep(5 * time.Minute) // renewed
		if left := time.Until(hold.Until()); ctx.Err() != nil || !hold.Valid() || left < 10*time.Second || left > 30*time.Second {
			t.Errorf("after five minutes: %v, valid until %v from now", context.Cause(ctx), left)
		}
		if hold.Name() != "job" || hold.Token() != 0 {
			t.Errorf("name %q, token %d", hold.Name(), hold.Token())
		}
		start := time.Now()
		mustUnlock(t, hold)
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrReleased) || ctx.Err() == nil || hold.Valid() {
			t.Errorf("a second Unlock: %v, want ErrReleased; context %v", err, ctx.Err())
		}
		again, _ := mustRedlock(t, other.redlock(), t.Context())
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("another had it %v after the release, want %v at most", d, 100*time.Millisecond)
		}
		mustUnlock(t, again)
		synctest.Wait()
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

// wantRedlockRefused checks that p is refused because of hold.
func wantRedlockRefused(t *testing.T, p *process, hold *mortise.Hold) {
	_, after, err := p.redlock().TryLock(t.Context())
	var held *mortise.HeldError
	if !errors.Is(err, mortise.ErrLocked) || errors.Is(err, mortise.ErrNoQuorum) || !errors.As(err, &held) || !strings.Contains(hold.Owner(), held.Owner) {
		t.Errorf("TryLock of another: %v, want ErrLocked and the holder", err)
	}
	if after != t.Context() {
		t.Error("a failed TryLock did not return the caller's context")
	}
}

// The release wakes the waiters; none of them polls for it.
func TestRedlockWaiterIsWoken(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		hold, _ := mustRedlock(t, p.redlock(), t.Context())
		got := make(chan *mortise.Hold)
		go func() {
			hold, _, err := other.redlock().Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		time.Sleep(5*time.Second + 50*time.Millisecond)
		if n := other.faults[0].Count("lock_acquire"); n > 10 {
			t.Errorf("it asked %d times in 5s, want about once a second", n)
		}
		start := time.Now()
		mustUnlock(t, hold)
		hold = <-got
		// It may be woken by the first server before the others are free.
		if d := time.Since(start); d > 20*time.Millisecond {
			t.Errorf("it got the lock %v after the release, want %v at most", d, 20*time.Millisecond)
		}
		mustUnlock(t, hold)
	})
}

// A holder may lack one of the servers, forever if its lease is fixed. A waiter
// is granted that one each time, which does not help it. It must not take that for
// a vote that others split with it, nor its own release of it for the holder's.
func TestRedlockWaitsForAHolderThatLacksAServer(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		p.faults[2].Set(refuse, nil)
		hold, _, err := p.redlock().With(mortise.LockOptions{MaxHold: 20 * time.Second}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *mortise.Hold)
		go func() {
			hold, _, err := other.redlock().Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		time.Sleep(10*time.Second + 50*time.Millisecond)
		if n := other.faults[0].Count("lock_acquire"); n > 17 {
			t.Errorf("it asked %d times in 10s, want about once a second", n)
		}
		start := time.Now()
		mustUnlock(t, hold)
		hold = <-got
		if d := time.Since(start); d > 20*time.Millisecond {
			t.Errorf("it got the lock %v after the release, want %v at most", d, 20*time.Millisecond)
		}
		mustUnlock(t, hold)
	})
}

func TestRedlockReenters(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		outer, ctx := mustRedlock(t, p.redlock(), t.Context())
		// A waiter in the same process is not in the way of a re-entry.
		waiting := make(chan *mortise.Hold)
		go func() {
			hold, _, err := p.redlock().Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			waiting <- hold
		}()
		time.Sleep(time.Second)
		inner, _ := mustRedlock(t, p.redlock(), ctx)
		synctest.Wait()
		for i := range servers {
			if n := do(t, servers[i], "HVALS", "job").At(0).Str(); n != "2" {
				t.Errorf("server %d counts %s, want 2", i, n)
			}
		}
		if _, _, err := p.redlock().With(mortise.LockOptions{NonReentrant: true}).Lock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("without re-entry: %v, want ErrReentry", err)
		}
		mustUnlock(t, inner)
		if _, _, err := other.redlock().TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) || !outer.Valid() {
			t.Errorf("TryLock of another: %v, want ErrLocked", err)
		}
		mustUnlock(t, outer)
		mustUnlock(t, <-waiting)
	})
}

// The lease is told: that of the majority, less the time it took.
func TestRedlockWithAFixedLease(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		for i, f := range p.faults { // each a bit later than the one before
			delay := time.Duration(i) * 10 * time.Millisecond
			f.Set(nil, func(context.Context, string) error { time.Sleep(delay); return nil })
		}
		start := time.Now()
		hold, ctx := mustRedlock(t, p.redlock().With(mortise.LockOptions{MaxHold: 5 * time.Second, Margin: time.Second}), t.Context())
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Errorf("it took %v, want the 10ms of the second server", d)
		}
		if left := hold.Until().Sub(start); left != 4*time.Second {
			t.Errorf("it is trusted until %v after the start, want 4s", left)
		}
		do(t, servers[2], "DEL", "job") // not mended
		<-ctx.Done()
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("the context ended after %v, want 4s", d)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(2 * time.Second)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

func TestRedlockEndsItsWait(t *testing.T) {
	t.Parallel()
	bored := errors.New("bored")
	for _, end := range []string{"context", "majority of clients"} {
		t.Run(end, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
				block, _ := mustRedlock(t, other.redlock(), t.Context())
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						_, after, err := p.redlock().Lock(ctx)
						if after != ctx {
							t.Error("a failed Lock did not return the caller's context")
						}
						if end == "context" && (!errors.Is(err, bored) || !errors.Is(err, context.Canceled)) {
							t.Errorf("got %v, want the cause", err)
						}
						if end != "context" && !errors.Is(err, mortise.ErrClosed) {
							t.Errorf("got %v, want ErrClosed", err)
						}
					})
				}
				time.Sleep(3500 * time.Millisecond)
				start := time.Now()
				if end == "context" {
					cancel(bored)
				} else {
					_ = p.clients[0].Close()
					time.Sleep(2 * time.Second)
					start = time.Now()
					_ = p.clients[2].Close()
				}
				all.Wait()
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("%s: the waits ended after %v, want %v at most", end, d, 10*time.Millisecond)
				}
				mustUnlock(t, block)
				again, _ := mustRedlock(t, other.redlock(), t.Context())
				mustUnlock(t, again)
			})
		})
	}
}

// Without a single message every wait ends by itself.
func TestRedlockWaitsWithoutMessages(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		var deaf []*mortise.Client
		for _, s := range servers {
			c := mortise.New(deafDriver{s.Driver()}, nil)
			defer c.Close()
			deaf = append(deaf, c)
		}
		other := newProcess(t, servers, nil)
		block, _ := mustRedlock(t, other.redlock(), t.Context())
		wantNoticed(t, block, 1200*time.Millisecond, mortise.NewRedlock("job", deaf...).Lock)
	})
}

func TestRedlockRefusesBadInput(t *testing.T) {
	several(t, 2, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		bad, _ := open(t, servers[0], &mortise.Options{TTL: 1})
		a, b := p.clients[0], p.clients[1]
		for what, k := range map[string]*mortise.Redlock{
			"no client":      mortise.NewRedlock("job"),
			"a nil client":   mortise.NewRedlock("job", a, nil, b),
			"the same twice": mortise.NewRedlock("job", a, b, a),
			"a bad client":   mortise.NewRedlock("job", a, bad),
			"a name":         mortise.NewRedlock("", a, b),
			"another name":   mortise.NewRedlock("{x", a, b),
			"a lease":        p.redlock().With(mortise.LockOptions{MaxHold: -1}),
			"a margin":       p.redlock().With(mortise.LockOptions{Margin: time.Hour}),
		} {
			_, _, err := k.Lock(t.Context())
			_, _, terr := k.TryLock(t.Context())
			derr := k.Do(t.Context(), func(context.Context) error { t.Error("it ran"); return nil })
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) || !errors.Is(derr, mortise.ErrInvalid) {
				t.Errorf("%s: %v, %v, %v, want ErrInvalid", what, err, terr, derr)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := p.redlock().Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a dead context: %v", err)
		}
		if n := p.faults[0].Total() + p.faults[1].Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
		}
	})
}

// A server that is reached only after the lock was released is not asked for it:
// it would refuse the next request, for which a frozen server then counts.
func TestRedlockAsksNobodyAfterUnlock(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		told := make(chan struct{})
		late := &faults{Driver: &slow{servers[2].Driver(), told}}
		p.clients[2] = mortise.New(late, nil)
		defer p.clients[2].Close()
		hold, _ := mustRedlock(t, p.redlock(), t.Context())
		mustUnlock(t, hold)
		close(told)
		synctest.Wait()
		if n := late.Total(); n != 0 {
			t.Errorf("%d commands to the server that was late, want none", n)
		}
		hold, _ = mustRedlock(t, p.redlock(), t.Context())
		synctest.Wait()
		if n := on(t, servers); n != 3 {
			t.Errorf("the next is on %d servers, want 3", n)
		}
		mustUnlock(t, hold)
	})
}
