package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// replicated is a driver for a master with replicas that are there only in
// words: so many connected, so many of them awake.
type replicated struct {
	*faults

	mu               sync.Mutex // guards what follows
	connected, awake int
	unsynced         bool  // the master's file
	refuses          error // what Redis answers to what follows the script
	waits            []driver.Wait
	before           func(calls []driver.Call) // is called first; not guarded
}

func openReplicated(t *testing.T, s *memredis.Server, connected, awake int, options *mortise.Options) (*mortise.Client, *replicated) {
	t.Helper()
	r := &replicated{faults: &faults{Driver: s.Driver()}, connected: connected, awake: awake}
	c := mortise.New(r, options)
	t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
	return c, r
}

func (r *replicated) become(connected, awake int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected, r.awake = connected, awake
}

// asked returns how many replicas were waited for, call by call, since it was
// called last.
func (r *replicated) asked() (replicas []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waits {
		replicas = append(replicas, w.Replicas)
	}
	r.waits = nil
	return replicas
}

func (r *replicated) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	results := make([]driver.Acknowledged, len(calls))
	fail := func(err error) []driver.Acknowledged {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	if r.before != nil {
		r.before(calls)
	}
	for i, ran := range r.Batch(ctx, calls) {
		results[i].Result = ran
	}
	r.mu.Lock()
	r.waits = append(r.waits, wait)
	connected, awake, unsynced, refuses := r.connected, r.awake, r.unsynced, r.refuses
	r.mu.Unlock()
	if refuses != nil {
		return fail(refuses)
	}
	if wait.Replicas > awake || wait.AOF && unsynced {
		select {
		case <-time.After(wait.Timeout):
		case <-ctx.Done():
			return fail(driver.ContextError(ctx, driver.Unknown))
		}
		r.mu.Lock()
		awake = r.awake
		r.mu.Unlock()
	}
	for i := range results {
		results[i].Acks, results[i].Synced = awake, wait.AOF && !unsynced
		if wait.Count {
			results[i].Of = connected
		}
	}
	return results
}

func durably(acks mortise.Acks) mortise.LockOptions {
	return mortise.LockOptions{Durability: mortise.Durability{Acks: acks}}
}

// How many replicas each policy demands, of those that there are.
func TestDurabilityCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		acks   mortise.Acks
		wanted []int // of 0, 1, 2 … replicas
	}{
		{mortise.AcksMajority, []int{0, 1, 1, 2, 2, 3}},
		{mortise.AcksAll, []int{0, 1, 2, 3, 4, 5}},
		{1, []int{1, 1, 1, 1, 1, 1}},
		{3, []int{3, 3, 3, 3, 3, 3}},
	} {
		for connected, wanted := range tt.wanted {
			t.Run(fmt.Sprintf("%d of %d", tt.acks, connected), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, r := openReplicated(t, s, connected, wanted, nil)
					k := c.Lock("job").With(durably(tt.acks))
					hold, _ := mustLock(t, k, t.Context())
					mustUnlock(t, hold)
					if wanted == 0 {
						return
					}
					r.become(connected, wanted-1)
					start := time.Now()
					_, _, err := k.Lock(t.Context())
					wantNotDurable(t, err, wanted-1, wanted)
					if d := time.Since(start); d != time.Second {
						t.Errorf("%d of %d: it took %v, want the default of a second", tt.acks, connected, d)
					}
				})
			})
		}
	}
}

// A renewal that replicas do not have may be forgotten by a failover. The hold
// ends before the lease could that they do have.
func TestUnacknowledgedRenewalsDoNotCount(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 1, 1, &mortise.Options{TTL: 10 * time.Second})
		hold, ctx, err := k.Open(c, "job", durably(1)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(5 * time.Second) // one renewal
		r.become(1, 0)
		time.Sleep(4 * time.Second) // two failed, after a second each
		r.become(1, 1)
		time.Sleep(20 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("lost although replicas came back: %v", context.Cause(ctx))
		}
		r.become(1, 0)
		<-ctx.Done()
		var lost *mortise.LostError
		if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Reason != mortise.LostUnreachable || !errors.Is(cause, mortise.ErrNotDurable) {
			t.Errorf("the cause is %v, want that no replica acknowledged", cause)
		}
		if d := time.Since(start); d < 29*time.Second+5*time.Second || d > 29*time.Second+10*time.Second {
			t.Errorf("lost after %v, want less than a lease after the last acknowledgement", d)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		wantEmpty(t, s)
	})
}

// Waiting for replicas holds up only the callers that asked for it.
func TestRenewalsOfOthersAreNotHeldUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 1, &mortise.Options{TTL: 500 * time.Millisecond})
		o := durably(1)
		o.Durability.Timeout = time.Hour // cut to what is left
		_, theirs := mustLock(t, c.Lock("durable").With(o), t.Context())
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		r.become(1, 0)
		<-theirs.Done()
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("another lease was lost while one waited: %v", context.Cause(ctx))
		}
		mustUnlock(t, hold)
	})
}

// The lease is not trusted longer for having waited.
func TestWaitingForReplicasIsBoundedByTheLease(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{4 * time.Millisecond, 40 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(lease.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := openReplicated(t, s, 1, 0, nil)
				o := durably(1)
				o.MaxHold = lease
				start := time.Now()
				_, _, err := c.Lock("job").With(o).Lock(t.Context())
				wantNotDurable(t, err, 0, 1)
				if d := time.Since(start); d >= lease || d < lease/4 {
					t.Errorf("with a lease of %v it took %v", lease, d)
				}
				wantEmpty(t, s)
			})
		})
	}
	t.Run("acknowledged late", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, r := openReplicated(t, s, 1, 0, nil)
			time.AfterFunc(500*time.Millisecond, func() { r.become(1, 1) })
			o := durably(1)
			o.MaxHold = 10 * time.Second
			start := time.Now()
			hold, _ := mustLock(t, c.Lock("job").With(o), t.Context()) // after a second
			if left := hold.Until().Sub(start); left >= 10*time.Second || time.Since(start) != time.Second {
				t.Errorf("trusted for %v from the start, after %v", left, time.Since(start))
			}
			if ttl := do(t, s, "PTTL", "job").Int(); ttl != 9000 {
				t.Errorf("a second later the fixed lease lasts another %dms, want 9000", ttl)
			}
			mustUnlock(t, hold)
		})
	})
}

func TestReentryThatIsNotAcknowledgedIsUndone(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 1, 1, nil)
		lock := k.Open(c, "job", durably(1))
		outer, ctx, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := do(t, s, "HGETALL", "job").String() // the count among it
		r.become(1, 0)
		_, _, err = lock.Lock(ctx)
		wantNotDurable(t, err, 0, 1)
		synctest.Wait()
		if after := do(t, s, "HGETALL", "job").String(); after != before || after == "[]" {
			t.Errorf("the re-entry left %s, want %s", after, before)
		}
		for _, o := range []mortise.LockOptions{durably(2), durably(mortise.AcksAll), {Durability: mortise.Durability{Acks: 1, AOF: true}}} {
			if _, _, err := k.Open(c, "job", o).Lock(ctx); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("a re-entry with %v: %v, want ErrInvalid", o.Durability, err)
			}
		}
		r.become(1, 1)
		o := durably(1)
		o.Durability.Timeout = time.Minute
		inner, _, err := k.Open(c, "job", o).Lock(ctx)
		if err != nil {
			t.Fatalf("a re-entry with another timeout: %v", err)
		}
		mustUnlock(t, inner)
		mustUnlock(t, outer)
		plain, ctx, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := lock.Lock(ctx); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("a durable re-entry to a lease that is not: %v, want ErrInvalid", err)
		}
		mustUnlock(t, plain)
		wantEmpty(t, s)
	})
}

// Replicas come and go; what counts is how many there are now.
func TestReplicasThatComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 2, 2, nil)
		k := c.Lock("job").With(durably(mortise.AcksAll))
		take := func(what string, limit time.Duration, waits ...int) {
			t.Helper()
			start := time.Now()
			hold, _ := mustLock(t, k, t.Context())
			mustUnlock(t, hold)
			if d := time.Since(start); d != limit {
				t.Errorf("%s: it took %v, want %v", what, d, limit)
			}
			if got := r.asked(); !slices.Equal(got, waits) {
				t.Errorf("%s: it waited for %v replicas, want %v", what, got, waits)
			}
		}
		take("at first", 0, 0, 2)
		r.become(1, 1)
		take("one has left", time.Second/10, 2) // the master knows, the client did not
		take("since one left", 0, 1)
		r.become(3, 3)
		take("two have come", 0, 1)
		take("since two came", 0, 3)
		r.become(4, 4)
		r.mu.Lock()
		r.awake = 3
		r.mu.Unlock()
		_, _, err := k.Lock(t.Context())
		wantNotDurable(t, err, 3, 4)
		if got := r.asked(); !slices.Equal(got, []int{3, 4}) {
			t.Errorf("one has come that lags: it waited for %v replicas, want 3, then 4", got)
		}
		r.become(0, 0)
		r.asked()
		take("all have left", time.Second/10, 4)
		take("without any", 0, 0)
	})
}

// A master that is cut off from its replicas must not go on where a number was
// named: another may have been promoted.
func TestMasterWithoutReplicas(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 2, 2, &mortise.Options{TTL: 10 * time.Second})
		contexts := map[mortise.Acks]context.Context{}
		for _, acks := range []mortise.Acks{1, 2, mortise.AcksMajority, mortise.AcksAll} {
			_, contexts[acks] = mustLock(t, c.Lock(fmt.Sprint("job:", int(acks))).With(durably(acks)), t.Context())
		}
		start := time.Now()
		r.become(0, 0)
		<-contexts[1].Done()
		<-contexts[2].Done()
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("the locks that name a number were kept for %v, want less than a lease", d)
		}
		time.Sleep(time.Minute)
		for _, acks := range []mortise.Acks{mortise.AcksMajority, mortise.AcksAll} {
			if err := contexts[acks].Err(); err != nil {
				t.Errorf("%v of no replicas: %v", durably(acks).Durability, err)
			}
		}
	})
}

func TestSyncedToTheAppendOnlyFile(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 1, nil)
		for _, acks := range []mortise.Acks{0, 1, mortise.AcksAll} {
			k := c.Lock("job").With(mortise.LockOptions{Durability: mortise.Durability{Acks: acks, AOF: true}})
			r.mu.Lock()
			r.unsynced = false
			r.mu.Unlock()
			hold, _ := mustLock(t, k, t.Context())
			mustUnlock(t, hold)
			r.mu.Lock()
			r.unsynced = true
			r.mu.Unlock()
			_, _, err := k.Lock(t.Context())
			var short *mortise.NotDurableError
			if !errors.As(err, &short) || !short.Unsynced {
				t.Fatalf("%v: %v, want that the master has not synced it", acks, err)
			}
		}
		wantEmpty(t, s)
	})
}

// What Redis cannot do is said before anything is written.
func TestImpossibleDurabilityIsRefused(t *testing.T) {
	t.Parallel()
	other := func(text string) error { return driver.ReplyError(errors.New(text), text) }
	for name, tt := range map[string]struct {
		refuses error
		want    error
	}{
		"server without WAITAOF": {other("ERR unknown command 'WAITAOF', with args beginning with: '1' "), mortise.ErrInvalid},
		"server without a file":  {other("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."), mortise.ErrInvalid},
		"no right to INFO":       {other("NOPERM this user has no permissions to run the 'info' command"), mortise.ErrDenied},
		"a replica":              {other("ERR WAIT cannot be used with replica instances. …"), mortise.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, r := openReplicated(t, s, 1, 1, nil)
				r.refuses = tt.refuses
				_, _, err := c.Lock("job").With(durably(mortise.AcksAll)).Lock(t.Context())
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.refuses.Error()) {
					t.Errorf("got %v, want %v and what Redis said", err, tt.want)
				}
				if n := r.Total() - r.Count("look"); n != 0 {
					t.Errorf("%d scripts ran besides the question, want 0", n)
				}
			})
		})
	}
	t.Run("driver that cannot wait", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, f := open(t, s, nil)
			_, _, err := c.Lock("job").With(durably(1)).Lock(t.Context())
			if !errors.Is(err, mortise.ErrInvalid) || f.Total() != 0 {
				t.Errorf("%v after %d scripts, want ErrInvalid and none", err, f.Total())
			}
		})
	})
	for _, d := range []mortise.Durability{
		{Acks: -3}, {Acks: 1, Timeout: -time.Second}, {Timeout: time.Microsecond}, {Acks: 1, Timeout: 400 * 24 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%+v", d), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, r := openReplicated(t, s, 1, 1, nil)
				_, _, err := c.Lock("job").With(mortise.LockOptions{Durability: d}).Lock(t.Context())
				if !errors.Is(err, mortise.ErrInvalid) || r.Total() != 0 {
					t.Errorf("%v after %d scripts, want ErrInvalid and none", err, r.Total())
				}
			})
		})
	}
}

// The embedded Redis has no replicas, and says so.
func TestDurabilityWithTheEmbeddedRedis(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(s.Driver(), nil)
		defer c.Close()
		hold, _ := mustLock(t, c.Lock("job").With(durably(mortise.AcksAll)), t.Context())
		mustUnlock(t, hold)
		start := time.Now()
		_, _, err := c.Lock("job").With(durably(1)).Lock(t.Context())
		wantNotDurable(t, err, 0, 1)
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v to say that there are no replicas, want 0", d)
		}
		_, _, err = c.Lock("job").With(mortise.LockOptions{Durability: mortise.Durability{AOF: true}}).Lock(t.Context())
		if !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("with a file: %v, want ErrInvalid", err)
		}
		wantEmpty(t, s)
	})
}

// The caller, or the client, may go while replicas are waited for.
func TestGivingUpWhileReplicasAreWaitedFor(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := openReplicated(t, s, 1, 0, nil)
		other, _ := open(t, s, nil)
		o := durably(1)
		o.Durability.Timeout = 20 * time.Second
		lock, rival := k.Open(c, "job", o), k.Open(other, "job", mortise.LockOptions{})
		bored := errors.New("bored")
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { cancel(bored) })
		if _, _, err := lock.Lock(ctx); !errors.Is(err, bored) || time.Since(start) != 3*time.Second {
			t.Errorf("cancelled: %v after %v, want the cause at once", err, time.Since(start))
		}
		hold, _, err := rival.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("a lock nobody wants stayed until %v", d)
		}
		mustUnlock(t, hold)

		start = time.Now()
		short, end := context.WithTimeout(t.Context(), 4*time.Second)
		defer end()
		_, _, err = lock.Lock(short) // in time to say why
		wantNotDurable(t, err, 0, 1)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("with a deadline in 4s it took %v, want three quarters of it", d)
		}

		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := lock.Lock(t.Context()); !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("closed: %v, want ErrClosed", err)
			}
		})
		time.Sleep(time.Second)
		start = time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		if d := time.Since(start); d > 25*time.Second {
			t.Errorf("Close took %v, want %v at most", d, 25*time.Second)
		}
		wantEmpty(t, s)
	})
}

// A failover between the acquisition and the acknowledgement.
func TestLockThatIsGoneBeforeItIsAcknowledged(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 1, 1, nil)
		lock := k.Open(c, "job", durably(1))
		forget := func(_ context.Context, name string) error {
			if strings.HasSuffix(name, "_durably") {
				do(t, s, "DEL", "job")
			}
			return nil
		}
		r.Set(forget, nil)
		_, _, err := lock.Lock(t.Context())
		if !errors.Is(err, mortise.ErrNotDurable) {
			t.Errorf("Lock: %v, want ErrNotDurable", err)
		}
		r.Set(nil, nil)
		outer, ctx, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Set(forget, nil)
		if _, _, err := lock.Lock(ctx); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("a re-entry: %v, want ErrLost", err)
		}
		if err := outer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		r.Set(nil, nil)
		wantEmpty(t, s)
	})
}
