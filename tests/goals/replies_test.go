package goals

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// repliesWorld is a client whose replies get lost after the script has run.
type repliesWorld struct {
	*testing.T
	s      *mortisetest.Server
	link   *mortisetest.Link
	c      *mortise.Client
	silent bool // the client hears nothing, instead of that the connection broke
}

// Each script that changes something loses its reply, again and again: no count is wrong, nothing is
// free too early, nothing stays, and no call says what is not so.
func TestLostRepliesCountOnce(t *testing.T) {
	cuts := times(200, 10_000)
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		w := &repliesWorld{T: t, s: s, link: s.Link()}
		w.c = mortise.New(w.link, nil)
		defer w.c.Close()
		if _, err := w.c.Semaphore("semaphore").TrySetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if err := w.c.PermitSemaphore("permits").SetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		for round := 0; w.lost() < cuts; round++ {
			w.silent = round%2 == 1
			name := fmt.Sprint("job ", round)
			w.lock(name)
			w.fair(name + " fair")
			w.readers(name + " rw")
			w.latch(name + " latch")
			w.permits()
		}
		t.Logf("%d replies lost", w.lost())
		time.Sleep(40 * time.Second) // a lease
		for _, key := range left(t, s) {
			if key != "semaphore" && key != "permits" {
				t.Errorf("%q is left", key)
			}
		}
	})
}

func (w *repliesWorld) lost() int { return w.link.Hits()[mortisetest.ReplyLost] }

// cut has the next call of a script lose its reply, does f, and checks that it has.
func (w *repliesWorld) cut(script string, f func()) {
	w.Helper()
	before := w.lost()
	w.link.Next(script, 1, mortisetest.Fault{Lose: mortisetest.Reply, Silent: w.silent})
	f()
	if w.lost() != before+1 {
		w.Fatalf("no reply of %s was lost", script)
	}
}

func (w *repliesWorld) want(what string, got string, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (w *repliesWorld) do(args ...string) string {
	v, err := w.s.Do(args...)
	if err != nil {
		w.Fatal(err)
	}
	if s := v.Str(); s != "" {
		return s
	}
	return fmt.Sprint(v.Int())
}

// must fails if a call whose reply was lost did not find out what came of it.
func (w *repliesWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// doubtful fails if a release whose reply was lost says anything else than that this is unknown.
func (w *repliesWorld) doubtful(err error) {
	w.Helper()
	if !errors.Is(err, mortise.ErrUnknownOutcome) {
		w.Errorf("release: %v, want ErrUnknownOutcome", err)
	}
}

func (w *repliesWorld) lock(name string) {
	k := w.c.Lock(name)
	var outer, inner *mortise.Hold
	var ctx context.Context
	var err error
	w.cut("lock_acquire", func() { outer, ctx, err = k.Lock(w.Context()) })
	w.must(err)
	w.want("count", w.do("HGET", name, outer.Owner()), "1")
	w.cut("lock_reenter", func() { inner, _, err = k.Lock(ctx) })
	w.must(err)
	w.want("count after re-entry", w.do("HGET", name, outer.Owner()), "2")
	w.cut("lock_leave", func() { err = inner.Unlock() })
	w.must(err)
	w.want("count after the inner release", w.do("HGET", name, outer.Owner()), "1")
	w.cut("lock_renew", func() { time.Sleep(15 * time.Second) })
	if !outer.Valid() || time.Until(outer.Until()) < 20*time.Second {
		w.Errorf("after a lost renewal the hold is trusted for %v", time.Until(outer.Until()))
	}
	w.cut("lock_release", func() { err = outer.Unlock() })
	w.doubtful(err)
	w.want("exists after the release", w.do("EXISTS", name), "0")
}

func (w *repliesWorld) fair(name string) {
	var hold *mortise.Hold
	var err error
	w.cut("fair_acquire", func() { hold, _, err = w.c.FairLock(name).Lock(w.Context()) })
	w.must(err)
	w.want("count", w.do("HGET", name, hold.Owner()), "1")
	w.cut("fair_release", func() { err = hold.Unlock() })
	w.doubtful(err)
	w.want("exists after the release", w.do("EXISTS", name), "0")
}

func (w *repliesWorld) readers(name string) {
	k := w.c.RWLock(name)
	var first, second *mortise.Hold
	var err error
	w.cut("rw_read_acquire", func() { first, _, err = k.Read().Lock(w.Context()) })
	w.must(err)
	w.cut("rw_read_acquire", func() { second, _, err = k.Read().Lock(w.Context()) })
	w.must(err)
	w.cut("rw_read_release", func() { err = first.Unlock() })
	w.doubtful(err)
	if _, _, err := k.Write().TryLock(w.Context()); !errors.Is(err, mortise.ErrLocked) {
		w.Errorf("a writer during a read: %v, want ErrLocked", err)
	}
	w.must(second.Unlock())
	w.cut("rw_write_acquire", func() { first, _, err = k.Write().Lock(w.Context()) })
	w.must(err)
	w.cut("rw_write_release", func() { err = first.Unlock() })
	w.doubtful(err)
	w.want("exists after the release", w.do("EXISTS", name), "0")
}

func (w *repliesWorld) latch(name string) {
	l := w.c.CountDownLatch(name)
	_, err := l.TrySetCount(w.Context(), 2)
	w.must(err)
	w.cut("latch_count_down", func() { err = l.CountDown(w.Context()) })
	w.must(err)
	w.want("count of the latch", w.do("GET", name), "1")
	w.cut("latch_count_down", func() { err = l.CountDown(w.Context()) })
	w.must(err)
	w.want("the latch, open,", w.do("EXISTS", name), "0")
}

func (w *repliesWorld) permits() {
	s := w.c.Semaphore("semaphore")
	var err error
	w.cut("semaphore_acquire", func() { err = s.Acquire(w.Context(), 2) })
	w.must(err)
	w.want("permits", w.do("GET", "semaphore"), "1")
	w.cut("semaphore_release", func() { err = s.Release(w.Context(), 2) })
	w.must(err)
	w.want("permits after the release", w.do("GET", "semaphore"), "3")

	var hold *mortise.Hold
	w.cut("permit_acquire", func() { hold, _, err = w.c.PermitSemaphore("permits").Acquire(w.Context()) })
	w.must(err)
	w.want("permits", w.do("GET", "permits"), "2")
	w.cut("permit_release", func() { err = hold.Unlock() })
	w.doubtful(err)
	w.want("permits after the release", w.do("GET", "permits"), "3")
}
