package mortisetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// clients runs f in virtual time with two clients and a history.
func clients(t *testing.T, f func(t *testing.T, h *mortisetest.History, a, b *mortise.Client)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		a, b := mortise.New(s.Link(), nil), mortise.New(s.Link(), nil)
		defer a.Close()
		defer b.Close()
		f(t, mortisetest.NewHistory(), a, b)
	})
}

// wantStory compares all that a history tells, line by line.
func wantStory(t *testing.T, h *mortisetest.History, want ...string) {
	t.Helper()
	if got := h.String(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("the story is\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

// A reader finds the owner that an error names in the story of the one that had the lock.
func TestStoriesHaveTheOwnersOfErrors(t *testing.T) {
	clients(t, func(t *testing.T, h *mortisetest.History, a, b *mortise.Client) {
		hold, _, err := h.Lock(t.Context(), "alice", a.Lock("job"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, _, refused := h.TryLock(t.Context(), "bob", b.Lock("job"))
		var by *mortise.HeldError
		if !errors.As(refused, &by) || by.Owner != hold.Owner() {
			t.Fatalf("error %v, want one that names %s", refused, hold.Owner())
		}
		_ = hold.Unlock()
		wantStory(t, h,
			fmt.Sprintf(`alice, as owner alice#1, asks for Lock "job" at 0.000s, has it from 0.000s (in Redis as %s) and releases it at 1.000s`, hold.Owner()),
			fmt.Sprintf(`bob, as owner bob#3, asks for Lock "job" at 1.000s and is refused at 1.000s: %v (that is owner alice#1)`, refused))
	})
}

// The leader of an election has an owner in Redis, too.
func TestStoryOfATerm(t *testing.T) {
	clients(t, func(t *testing.T, h *mortisetest.History, a, b *mortise.Client) {
		e := h.Election("alice", a.Election("leader"))
		term, _, err := e.Campaign(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		_ = term.Proclaim(t.Context(), "second")
		_, _ = h.Election("bob", b.Election("leader")).Leader(t.Context())
		_ = term.Resign()
		_, _ = e.Leader(t.Context())
		wantStory(t, h,
			fmt.Sprintf(`alice, as owner alice#1, asks for Election "leader" with the value "first" at 0.000s, has it from 0.000s (in Redis as %s) with the token 1 and releases it at 0.000s`, term.Owner()),
			`alice calls Proclaim("second") in the term 1 on term "leader" at 0.000s, which returns at 0.000s`,
			`bob calls Leader on term "leader" at 0.000s, which returns at 0.000s, and sees the term 1 with the value "second"`,
			`alice calls Leader on term "leader" at 0.000s, which returns at 0.000s, and sees nobody`)
	})
}

// A call is told with the arguments that its method has, and with no others.
func TestStoriesOfCalls(t *testing.T) {
	clients(t, func(t *testing.T, h *mortisetest.History, a, b *mortise.Client) {
		ctx := t.Context()
		l, s := h.Latch("alice", a.CountDownLatch("latch")), h.Semaphore("alice", a.Semaphore("sem"))
		_, _ = l.TrySetCount(ctx, 1)
		_, _ = l.TrySetCount(ctx, 2)
		_ = l.CountDown(ctx)
		_ = l.Wait(ctx)
		_, _ = l.Count(ctx)
		_, _ = s.TrySetPermits(ctx, 2)
		_ = s.Acquire(ctx, 2)
		_, _ = s.Available(ctx)
		_ = s.Release(ctx, 1)
		_ = s.AddPermits(ctx, 2)
		_, _ = s.Drain(ctx)
		h.SetPermits("permits", 3)
		_, _ = h.Barrier("alice", a.Barrier("barrier", 1), 1).Await(ctx)
		m, _, err := h.DoubleBarrier("bob", b.DoubleBarrier("double", 1), 1).Enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = m.Leave(ctx)
		wantStory(t, h,
			`alice calls TrySetCount(1) on latch "latch" at 0.000s, which returns at 0.000s`,
			`alice calls TrySetCount(2) on latch "latch" at 0.000s, which returns at 0.000s and has not set it`,
			`alice calls CountDown on latch "latch" at 0.000s, which returns at 0.000s`,
			`alice calls Wait on latch "latch" at 0.000s, which returns at 0.000s`,
			`alice calls Count on latch "latch" at 0.000s, which returns at 0.000s with 0`,
			`alice calls TrySetPermits(2) on semaphore "sem" at 0.000s, which returns at 0.000s`,
			`alice calls Acquire(2) on semaphore "sem" at 0.000s, which returns at 0.000s`,
			`alice calls Available on semaphore "sem" at 0.000s, which returns at 0.000s with 0`,
			`alice calls Release(1) on semaphore "sem" at 0.000s, which returns at 0.000s`,
			`alice calls AddPermits(2) on semaphore "sem" at 0.000s, which returns at 0.000s`,
			`alice calls Drain on semaphore "sem" at 0.000s, which returns at 0.000s with 3`,
			`the permits of "permits" are 3 from 0.000s on`,
			`alice calls Await on barrier "barrier" at 0.000s, which returns at 0.000s with 0`,
			`bob calls Enter on double barrier "double" at 0.000s, which returns at 0.000s`,
			`bob calls Leave on double barrier "double" at 0.000s, which returns at 0.000s`)
	})
}
