package behavior

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Taking and renewing ask for acknowledgements, and nothing else does.
func TestEachKindWaitsForReplicas(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 2, 2, nil)
		lock := k.Open(c, "job", durably(mortise.AcksAll))
		want := func(what string, replicas ...int) {
			t.Helper()
			if got := r.asked(); !slices.Equal(got, replicas) {
				t.Errorf("%s waited for %v replicas, want %v", what, got, replicas)
			}
		}
		outer, ctx, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want("the first acquisition", 0, 2) // first it asks how many there are
		inner, ctx2, err := lock.TryLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want("a re-entry", 2)
		time.Sleep(35 * time.Second)
		want("three renewals", 2, 2, 2)
		third, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx2)
		if err != nil {
			t.Fatal(err)
		}
		want("a re-entry that asks for nothing", 2)
		mustUnlock(t, third)
		mustUnlock(t, inner)
		other, _ := open(t, s, nil)
		rival := k.Open(other, "job", mortise.LockOptions{})
		if _, _, err := rival.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock of another: %v, want ErrLocked", err)
		}
		mustUnlock(t, outer)
		want("the releases")

		theirs, _, err := rival.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.become(2, 0)
		start := time.Now()
		if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) || time.Since(start) != 0 {
			t.Errorf("TryLock of a lock that is taken: %v after %v, want ErrLocked at once", err, time.Since(start))
		}
		want("a refusal")
		mustUnlock(t, theirs)
		wantEmpty(t, s)
	})
}

func TestEachKindIsGivenBackIfNotAcknowledged(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 2, 0, nil)
		other, _ := open(t, s, nil)
		o := durably(1)
		o.Durability.Timeout = 300 * time.Millisecond
		lock, rival := k.Open(c, "job", o), k.Open(other, "job", mortise.LockOptions{})
		for name, take := range map[string]func(context.Context) (*mortise.Hold, context.Context, error){"Lock": lock.Lock, "TryLock": lock.TryLock} {
			start := time.Now()
			_, ctx, err := take(t.Context())
			wantNotDurable(t, err, 0, 1)
			if ctx != t.Context() || time.Since(start) != 300*time.Millisecond {
				t.Errorf("%s failed after %v, want 300ms and the caller's context", name, time.Since(start))
			}
			hold, _, err := rival.TryLock(t.Context())
			if err != nil {
				t.Fatalf("TryLock of another after %s: %v", name, err)
			}
			mustUnlock(t, hold)
		}

		// Undoing it wakes a waiter.
		var waited time.Duration
		var all sync.WaitGroup
		start := time.Now()
		all.Go(func() {
			_, _, err := lock.Lock(t.Context())
			wantNotDurable(t, err, 0, 1)
		})
		time.Sleep(time.Millisecond)
		all.Go(func() {
			hold, _, err := rival.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			waited = time.Since(start)
			mustUnlock(t, hold)
		})
		all.Wait()
		if waited < 300*time.Millisecond || waited > 450*time.Millisecond { // SpinLock looks every 128 ms
			t.Errorf("a waiter had the lock after %v, want little more than 300ms", waited)
		}
		r.become(2, 1)
		hold, _, err := lock.Lock(t.Context())
		if err != nil {
			t.Errorf("with replicas again: %v", err)
		} else {
			mustUnlock(t, hold)
		}
		wantEmpty(t, s)
	})
}

// Replies about replicas get lost like all others, and requests too.
func TestEachKindIsDurableDespiteLostReplies(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 2, 1, nil)
		other, _ := open(t, s, nil)
		lock, rival := k.Open(c, "job", durably(mortise.AcksMajority)), k.Open(other, "job", mortise.LockOptions{})
		durably := func(n int) func(context.Context, string) error {
			lose := loseReplies("durable", n)
			return func(ctx context.Context, name string) error {
				if strings.HasSuffix(name, "_durably") || name == "look" {
					return lose(ctx, "durable")
				}
				return nil
			}
		}
		for _, lost := range []int{1, 3} {
			for what, set := range map[string]func(){
				"replies":  func() { r.Set(nil, durably(lost)) },
				"requests": func() { r.Set(durably(lost), nil) },
			} {
				set()
				outer, ctx, err := lock.Lock(t.Context())
				if err != nil {
					t.Fatalf("Lock with %d lost %s: %v", lost, what, err)
				}
				set()
				inner, _, err := lock.Lock(ctx)
				if err != nil {
					t.Fatalf("a re-entry with %d lost %s: %v", lost, what, err)
				}
				set()
				time.Sleep(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("with %d lost %s of renewals: %v", lost, what, context.Cause(ctx))
				}
				r.Set(nil, nil)
				mustUnlock(t, inner)
				if _, _, err := rival.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("TryLock of another: %v, want ErrLocked", err)
				}
				mustUnlock(t, outer)
				hold, _, err := rival.TryLock(t.Context())
				if err != nil {
					t.Fatalf("TryLock after %d lost %s: %v", lost, what, err)
				}
				mustUnlock(t, hold)
			}
		}
		wantEmpty(t, s)
	})
}

// A MultiLock has the durability of its locks, also where it takes them at once.
func TestDurableMultiLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 2, 2, nil)
		other, f := open(t, s, nil)
		locks := func(c *mortise.Client) *mortise.MultiLock {
			return mortise.NewMultiLock(c.Lock("a"), c.Lock("b"), c.FairLock("c"))
		}
		all := locks(c).With(durably(mortise.AcksAll))
		hold, ctx, err := all.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.asked(); !slices.Equal(got, []int{0, 2, 2, 2}) {
			t.Errorf("it waited for %v replicas, want the question and 2 for each lock", got)
		}
		r.become(2, 1)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, mortise.ErrLost) || !errors.Is(cause, mortise.ErrNotDurable) {
			t.Errorf("the cause is %v, want ErrLost because of a replica", cause)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(time.Minute)
		_, _, err = all.Lock(t.Context())
		wantNotDurable(t, err, 1, 2)
		time.Sleep(time.Second)
		theirs, _, err := locks(other).TryLock(t.Context())
		if err != nil {
			t.Fatalf("TryLock of another: %v", err)
		}
		mustUnlock(t, theirs)
		before := f.Total()
		if _, _, err := locks(other).With(durably(1)).Lock(t.Context()); !errors.Is(err, mortise.ErrInvalid) || f.Total() != before {
			t.Errorf("with a driver that cannot wait: %v, want ErrInvalid", err)
		}
		wantEmpty(t, s)
	})
}

// Readers are no different, although several hold the lock.
func TestDurableReaders(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 1, &mortise.Options{TTL: 10 * time.Second})
		k := c.RWLock("job").Read()
		first, ctx1, err := k.With(durably(1)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, ctx2, err := k.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.become(1, 0)
		_, _, err = k.With(durably(1)).Lock(t.Context())
		wantNotDurable(t, err, 0, 1)
		<-ctx1.Done()
		if !errors.Is(context.Cause(ctx1), mortise.ErrNotDurable) {
			t.Errorf("the cause is %v, want that no replica acknowledged", context.Cause(ctx1))
		}
		if err := first.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(time.Minute)
		if ctx2.Err() != nil {
			t.Errorf("a reader that does not ask for replicas was lost: %v", context.Cause(ctx2))
		}
		mustUnlock(t, second)
		wantEmpty(t, s)
	})
}

// A leader that replicas do not know of is none.
func TestDurableElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 0, nil)
		e := c.Election("boss").With(durably(1))
		_, _, err := e.Campaign(t.Context(), "a")
		wantNotDurable(t, err, 0, 1)
		if l, err := e.Leader(t.Context()); !errors.Is(err, mortise.ErrNoLeader) {
			t.Errorf("the leader is %+v, %v, want none", l, err)
		}
		r.become(1, 1)
		term, ctx, err := e.Campaign(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("the term has ended: %v", context.Cause(ctx))
		}
		r.become(1, 0)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mortise.ErrNotDurable) {
			t.Errorf("the cause is %v, want that no replica acknowledged", context.Cause(ctx))
		}
		_ = term.Resign()
	})
}
