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
	"github.com/mortise-go/mortise/driver"
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

// refuse is a fault: the connection cannot be made.
func refuse(context.Context, string) error {
	return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
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
					t.Errorf("%d servers: %d still have the lock", n, left)
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
		_, after, err := other.redlock().TryLock(t.Context())
		var held *mortise.HeldError
		if !errors.Is(err, mortise.ErrLocked) || errors.Is(err, mortise.ErrNoQuorum) || !errors.As(err, &held) || !strings.Contains(hold.Owner(), held.Owner) {
			t.Errorf("TryLock of another: %v, want ErrLocked and the holder", err)
		}
		if after != t.Context() {
			t.Error("a failed TryLock did not return the caller's context")
		}
		time.Sleep(time.Hour) // renewed
		if left := time.Until(hold.Until()); ctx.Err() != nil || !hold.Valid() || left < 10*time.Second || left > 30*time.Second {
			t.Errorf("after an hour: %v, valid until %v from now", context.Cause(ctx), left)
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
			t.Errorf("another had it %v after the release", d)
		}
		mustUnlock(t, again)
		synctest.Wait()
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers", n)
		}
	})
}

// The release wakes those who wait; nobody polls for it.
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
			t.Errorf("it got the lock %v after the release", d)
		}
		mustUnlock(t, hold)
	})
}

// A holder may lack one of the servers, for ever if its lease is fixed. Whoever
// waits is granted that one in vain each time, and must not take that for a vote
// that others split with it, nor its own release of it for the holder's.
func TestRedlockWaitsForAHolderThatLacksAServer(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		p.faults[2].Set(refuse, nil)
		hold, _, err := p.redlock().With(mortise.LockOptions{Lease: 20 * time.Second}).Lock(t.Context())
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
			t.Errorf("it got the lock %v after the release", d)
		}
		mustUnlock(t, hold)
	})
}

// With one server of three away, in each way, nothing is to be noticed.
func TestRedlockWithoutOneServer(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]func(context.Context, string) error{"stalled": hang, "refusing": refuse} {
		t.Run(what, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
				p.faults[1].Set(fault, nil)
				start := time.Now()
				hold, ctx := mustRedlock(t, p.redlock(), t.Context())
				if d := time.Since(start); d != 0 {
					t.Errorf("%s: it took %v, want no time: the others decide", what, d)
				}
				if _, _, err := other.redlock().TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("%s: TryLock of another: %v, want ErrLocked", what, err)
				}
				time.Sleep(time.Minute)
				if ctx.Err() != nil || !hold.Valid() {
					t.Errorf("%s: lost: %v", what, context.Cause(ctx))
				}
				start = time.Now()
				mustUnlock(t, hold)
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("%s: Unlock took %v", what, d)
				}
				again, _ := mustRedlock(t, other.redlock(), t.Context())
				mustUnlock(t, again)
			})
		})
	}
}

// Where the outcome depends on a server that does not answer, it costs its time
// once, and then others are waited for as ever.
func TestRedlockAStalledServerCostsItsTimeOnce(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		p.faults[2].Set(hang, nil)
		block, _ := mustLock(t, other.clients[0].Lock("job"), t.Context())
		start := time.Now()
		_, _, err := p.redlock().TryLock(t.Context())
		if d := time.Since(start); !errors.Is(err, mortise.ErrLocked) || d > 1600*time.Millisecond {
			t.Errorf("TryLock: %v after %v, want ErrLocked within 1.5s", err, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // by then it is known
		defer cancel()
		if _, _, err := p.redlock().Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("Lock: %v, want the context's error and ErrLocked", err)
		}
		for range 5 {
			time.AfterFunc(5*time.Second, func() { mustUnlock(t, block) })
			start = time.Now()
			hold, _ := mustRedlock(t, p.redlock(), t.Context())
			if d := time.Since(start); d < 5*time.Second || d > 5400*time.Millisecond {
				t.Errorf("it had the lock after %v, want soon after 5s", d)
			}
			mustUnlock(t, hold)
			block, _ = mustLock(t, other.clients[0].Lock("job"), t.Context())
		}
		mustUnlock(t, block)
	})
}

// Which error it is does not depend on which server is the fastest to answer, or
// to fail.
func TestRedlockTellsLockedFromNoQuorum(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		block, _ := mustRedlock(t, other.redlock(), t.Context())
		synctest.Wait()
		slow := func(context.Context, string) error { time.Sleep(300 * time.Millisecond); return nil }
		gone := func(context.Context, string) error {
			return &driver.Error{Class: driver.Denied, Err: errors.New("NOAUTH")} // fails at once
		}
		for _, test := range []struct {
			faults [3]func(context.Context, string) error
			want   error
		}{
			{[3]func(context.Context, string) error{nil, slow, gone}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{slow, gone, slow}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{nil, hang, gone}, mortise.ErrNoQuorum},
			{[3]func(context.Context, string) error{slow, gone, gone}, mortise.ErrNoQuorum},
			{[3]func(context.Context, string) error{hang, nil, nil}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{hang, hang, nil}, mortise.ErrNoQuorum},
		} {
			for i, fault := range test.faults {
				p.faults[i].Set(fault, nil)
			}
			if _, _, err := p.redlock().TryLock(t.Context()); !errors.Is(err, test.want) ||
				errors.Is(err, mortise.ErrLocked) == errors.Is(err, mortise.ErrNoQuorum) {
				t.Errorf("TryLock: %v, want %v", err, test.want)
			}
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		mustUnlock(t, block)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers", n)
		}
	})
}

// Too few servers answer: ErrNoQuorum, and nothing is left on those that did.
func TestRedlockWithoutAQuorum(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]func(context.Context, string) error{"stalled": hang, "refusing": refuse} {
		t.Run(what, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p := newProcess(t, servers, &mortise.Options{RetryFor: 5 * time.Second})
				p.faults[0].Set(fault, nil)
				p.faults[2].Set(fault, nil)
				start := time.Now()
				_, _, err := p.redlock().TryLock(t.Context())
				if d := time.Since(start); d > 1600*time.Millisecond {
					t.Errorf("%s: TryLock took %v, want 1.5s", what, d)
				}
				if !errors.Is(err, mortise.ErrNoQuorum) || errors.Is(err, mortise.ErrLocked) || !errors.Is(err, mortise.ErrUnreachable) ||
					errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 3 did, and 2 are needed; server 1 of 3") {
					t.Errorf("%s: TryLock: %v, want ErrNoQuorum", what, err)
				}
				if n := on(t, servers[1:2]); n != 0 {
					t.Errorf("%s: the lock is left on the server that answers", what)
				}
				start = time.Now()
				_, _, err = p.redlock().Lock(t.Context())
				if d := time.Since(start); !errors.Is(err, mortise.ErrNoQuorum) || d < 5*time.Second || d > 10*time.Second {
					t.Errorf("%s: Lock: %v after %v, want ErrNoQuorum after 5s", what, err, d)
				}
				// One comes back while it waits.
				time.AfterFunc(3*time.Second, func() { p.faults[0].Set(nil, nil) })
				start = time.Now()
				hold, _ := mustRedlock(t, p.redlock(), t.Context())
				if d := time.Since(start); d > 7*time.Second {
					t.Errorf("%s: it had the lock after %v, want soon after 3s", what, d)
				}
				mustUnlock(t, hold)
				p.faults[2].Set(nil, nil)
				time.Sleep(time.Minute)
				if n := on(t, servers); n != 0 {
					t.Errorf("%s: it is still on %d servers", what, n)
				}
			})
		})
	}
}

// What does not pass by itself is reported at once.
func TestRedlockThatIsHopeless(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		do(t, servers[0], "RPUSH", "job", "x")
		hold, _ := mustRedlock(t, p.redlock(), t.Context()) // two are enough
		mustUnlock(t, hold)
		synctest.Wait()
		do(t, servers[1], "RPUSH", "job", "x")
		start := time.Now()
		_, _, err := p.redlock().Lock(t.Context())
		if d := time.Since(start); !errors.Is(err, mortise.ErrNoQuorum) || !errors.Is(err, mortise.ErrWrongKind) || d > time.Second {
			t.Errorf("%v after %v, want ErrNoQuorum and ErrWrongKind at once", err, d)
		}
		synctest.Wait()
		if n := on(t, servers[2:]); n != 0 {
			t.Error("the lock is left on the third server")
		}
	})
}

// Several ask at the same time, so that nobody has a majority: that resolves.
func TestRedlockSplitVotes(t *testing.T) {
	several(t, 5, func(t *testing.T, servers []*memredis.Server) {
		// Each has another server that is faster for it than the others.
		var all sync.WaitGroup
		start := time.Now()
		for i := range 5 {
			p := newProcess(t, servers, nil)
			for j, f := range p.faults {
				delay := time.Duration((j-i+5)%5) * time.Millisecond
				f.Set(func(_ context.Context, name string) error { time.Sleep(delay); return nil }, nil)
			}
			all.Go(func() {
				hold, _, err := p.redlock().Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mustUnlock(t, hold)
			})
		}
		all.Wait()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("five turns took %v", d)
		}
	})
}

func TestRedlockReenters(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		outer, ctx := mustRedlock(t, p.redlock(), t.Context())
		// One who waits in the same process is not in the way of a re-entry.
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

// One server loses the lock: the hold goes on, and gets it back. A majority
// loses it: the hold is over.
func TestRedlockLosesItsMajority(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		owner := mortise.WithOwner(t.Context())
		hold, ctx := mustRedlock(t, p.redlock(), owner)
		for round := range 6 { // more than a majority, one after the other
			do(t, servers[round%3], "FLUSHALL")
			time.Sleep(15 * time.Second)
			if n := on(t, servers); ctx.Err() != nil || !hold.Valid() || n != 3 {
				t.Fatalf("round %d: %v, and %d servers have it, want 3", round, context.Cause(ctx), n)
			}
		}
		do(t, servers[0], "FLUSHALL")
		do(t, servers[2], "FLUSHALL")
		start := time.Now()
		<-ctx.Done()
		cause := context.Cause(ctx)
		var e *mortise.Error
		if !errors.As(cause, &e) || e.Name != "job" || !errors.Is(cause, mortise.ErrLost) || !strings.Contains(cause.Error(), "of 3: ") {
			t.Errorf("the cause is %v, want ErrLost and the server", cause)
		}
		if d := time.Since(start); d > 10*time.Second || hold.Valid() || !hold.Until().IsZero() {
			t.Errorf("noticed after %v, valid %v until %v", d, hold.Valid(), hold.Until())
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		again, _ := mustRedlock(t, p.redlock(), owner)
		mustUnlock(t, again)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers", n)
		}
	})
}

// A server that was away when the lock was taken becomes part of it when it is
// back; so another may go then.
func TestRedlockMendsItself(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		p.faults[2].Set(refuse, nil)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(time.Minute)
		p.faults[2].Set(nil, nil)
		time.Sleep(15 * time.Second)
		if n := on(t, servers); n != 3 {
			t.Errorf("it is on %d servers, want 3", n)
		}
		p.faults[0].Set(hang, nil)
		time.Sleep(time.Hour)
		if ctx.Err() != nil || !hold.Valid() {
			t.Errorf("lost, although two servers are well: %v", context.Cause(ctx))
		}
		mustUnlock(t, hold)
		p.faults[0].Set(nil, nil)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers", n)
		}
	})
}

// The majority cannot be reached any more: the context ends before another can
// have the lock.
func TestRedlockEndsBeforeAnotherHasIt(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, &mortise.Options{Lease: 10 * time.Second}), newProcess(t, servers, nil)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(time.Minute)
		p.faults[0].Set(hang, nil)
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Fatalf("one of three was enough to lose it: %v", context.Cause(ctx))
		}
		p.faults[1].Set(hang, nil)
		time.Sleep(5 * time.Second)
		if left := time.Until(hold.Until()); left > 5*time.Second || left < 0 {
			t.Errorf("the majority is trusted for another %v, 5s after it was last renewed at most", left)
		}
		next, _ := mustRedlock(t, other.redlock(), t.Context())
		if ctx.Err() == nil || hold.Valid() || !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("another has the lock, and the context says %v", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		time.Sleep(time.Minute)
		if !next.Valid() {
			t.Error("what was left of the former hold harmed the next one")
		}
		mustUnlock(t, next)
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
		hold, ctx := mustRedlock(t, p.redlock().With(mortise.LockOptions{Lease: 5 * time.Second, Margin: time.Second}), t.Context())
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
			t.Errorf("it is still on %d servers", n)
		}
	})
}

// A reply of one server, or of all, is lost; so is a request.
func TestRedlockSurvivesLostRepliesAndRequests(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		for _, which := range [][]int{{0}, {1, 2}, {0, 1, 2}} {
			for _, script := range []string{"lock_acquire", "lock_release", "lock_renew"} {
				for _, what := range []string{"replies", "requests"} {
					for _, i := range which {
						if what == "replies" {
							p.faults[i].Set(nil, loseReplies(script, 2))
						} else {
							p.faults[i].Set(loseReplies(script, 2), nil)
						}
					}
					hold, ctx := mustRedlock(t, p.redlock(), t.Context())
					time.Sleep(11 * time.Second)
					if ctx.Err() != nil {
						t.Errorf("%s of %s lost by %v: %v", what, script, which, context.Cause(ctx))
					}
					if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
						t.Errorf("%s of %s lost by %v: Unlock: %v", what, script, which, err)
					}
					for _, i := range which {
						p.faults[i].Set(nil, nil)
					}
					again, _ := mustRedlock(t, other.redlock(), t.Context())
					mustUnlock(t, again)
				}
			}
		}
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers", n)
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
							t.Errorf("%v, want the cause", err)
						}
						if end != "context" && !errors.Is(err, mortise.ErrClosed) {
							t.Errorf("%v, want ErrClosed", err)
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
					t.Errorf("%s: the waits ended after %v", end, d)
				}
				mustUnlock(t, block)
				again, _ := mustRedlock(t, other.redlock(), t.Context())
				mustUnlock(t, again)
			})
		})
	}
}

// A caller gives up while the servers have not answered, but they have granted
// the lock: it must not stay behind.
func TestRedlockGivesUpWithoutLeavingLocks(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		for _, f := range p.faults {
			f.Set(nil, func(ctx context.Context, name string) error {
				if name == "lock_acquire" {
					return hang(ctx, name)
				}
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := p.redlock().Lock(ctx)
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d != time.Second {
			t.Errorf("%v after %v, want the context's error after 1s", err, d)
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		hold, _ := mustRedlock(t, other.redlock(), t.Context())
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("a lock nobody wants stayed for %v", d)
		}
		mustUnlock(t, hold)
	})
}

func TestRedlockFreesTheLockOfADeadHolder(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		dead := newProcess(t, servers, &mortise.Options{Lease: 7 * time.Second})
		hold, ctx := mustRedlock(t, dead.redlock(), t.Context())
		for _, c := range dead.clients {
			_ = c.Close() // abandons the hold, as a crash does
		}
		if !errors.Is(context.Cause(ctx), mortise.ErrClosed) || hold.Valid() {
			t.Errorf("the cause is %v, want ErrClosed", context.Cause(ctx))
		}
		p := newProcess(t, servers, nil)
		start := time.Now()
		next, _ := mustRedlock(t, p.redlock(), t.Context())
		if d := time.Since(start); d < 7*time.Second || d > 8500*time.Millisecond {
			t.Errorf("a dead holder's lock was free after %v, want 7s", d)
		}
		mustUnlock(t, next)
	})
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
		bad, _ := open(t, servers[0], &mortise.Options{Lease: 1})
		a, b := p.clients[0], p.clients[1]
		for what, k := range map[string]*mortise.Redlock{
			"no client":      mortise.NewRedlock("job"),
			"a nil client":   mortise.NewRedlock("job", a, nil, b),
			"the same twice": mortise.NewRedlock("job", a, b, a),
			"a bad client":   mortise.NewRedlock("job", a, bad),
			"a name":         mortise.NewRedlock("", a, b),
			"another name":   mortise.NewRedlock("{x", a, b),
			"a lease":        p.redlock().With(mortise.LockOptions{Lease: -1}),
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
			t.Errorf("%d scripts were sent", n)
		}
	})
}

// The majority's answers come when their leases are over already.
func TestRedlockAnswersComeTooLate(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		for _, f := range p.faults[1:] {
			f.Set(nil, func(_ context.Context, name string) error {
				if name == "lock_acquire" {
					time.Sleep(45 * time.Millisecond)
				}
				return nil
			})
		}
		k := p.redlock().With(mortise.LockOptions{Lease: 40 * time.Millisecond})
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){k.Lock, k.TryLock} {
			if _, _, err := take(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLost) {
				t.Errorf("%v, want ErrUnreachable, for nothing was held", err)
			}
			time.Sleep(time.Second)
			if n := on(t, servers); n != 0 {
				t.Errorf("it is still on %d servers", n)
			}
		}
	})
}

// slow is a driver that says what it talks to only when it is told to.
type slow struct {
	driver.Driver
	told chan struct{}
}

func (d *slow) Topology(ctx context.Context) (driver.Topology, error) {
	select {
	case <-d.told:
		return d.Driver.Topology(ctx)
	case <-ctx.Done():
		return driver.Topology{}, driver.ContextError(ctx, driver.NotSent)
	}
}

// A server that is reached only after the lock was released is not asked for it:
// it would refuse the next who asks, for whom a frozen server then counts.
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
