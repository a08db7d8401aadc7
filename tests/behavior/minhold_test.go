package behavior

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// eachKeeper runs f in virtual time for every kind of lock that can have a MinHold.
func eachKeeper(t *testing.T, f func(t *testing.T, s *memredis.Server, name string, k kind)) {
	t.Helper()
	t.Parallel()
	for name, k := range kinds {
		if name == "GroupLock" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) { f(t, s, name, k) })
		})
	}
}

// keepScript returns the script that releases a lock before its MinHold is over.
func keepScript(kind string) string {
	if kind == "RWLock.Write" {
		return "rw_write_keep"
	}
	return "lock_keep"
}

// wantKept fails unless nobody can have the lock, not even the client and the owner that released
// it.
func wantKept(t *testing.T, ctx context.Context, k kind, clients ...*mortise.Client) {
	t.Helper()
	for _, c := range clients {
		_, _, err := k.Open(c, "job", mortise.LockOptions{}).TryLock(ctx)
		if held := (*mortise.HeldError)(nil); !errors.As(err, &held) || !strings.Contains(held.Owner, ":kept") {
			t.Errorf("TryLock: %v, want that the lock is kept", err)
		} else if !strings.Contains(err.Error(), "MinHold") {
			t.Errorf("TryLock: %v, want that it names the reason", err)
		}
	}
}

// A lock with a MinHold that is released stays taken until that is over, with a TTL that is shorter
// or longer, and then the waiters get it: that of the same client, too, and no message is sent.
func TestMinHoldKeepsTheLock(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		for _, o := range []mortise.LockOptions{
			{MinHold: 10 * time.Second}, {MinHold: 2 * time.Minute}, {TTL: 3 * time.Second, MinHold: 10 * time.Second},
			{MaxHold: 20 * time.Second, MinHold: 10 * time.Second}, {MaxHold: 10 * time.Second, MinHold: 10 * time.Second},
		} {
			c, f := open(t, s, nil)
			other, _ := open(t, s, nil)
			owner := mortise.WithOwner(t.Context())
			hold, _ := must(t, k.Open(c, "job", o), owner)
			start := time.Now()
			waiting := []<-chan *mortise.Hold{later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{})), later(t, t.Context(), k.Open(other, "job", mortise.LockOptions{}))}
			time.Sleep(time.Second)
			mustUnlock(t, hold)
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrReleased) {
				t.Errorf("second unlock: %v, want ErrReleased", err)
			}
			wantKept(t, owner, k, c, other)
			if left, want := lasts(t, c, s), o.MinHold-time.Since(start); left > want+time.Millisecond || left < want-5*time.Millisecond {
				t.Errorf("with %+v it lasts %v longer, want %v", o, left, want)
			}
			time.Sleep(o.MinHold - 100*time.Millisecond - time.Since(start))
			wantKept(t, owner, k, c, other)
			for range waiting {
				var hold *mortise.Hold
				select {
				case hold = <-waiting[0]:
					waiting[0] = nil
				case hold = <-waiting[1]:
					waiting[1] = nil
				}
				if d := time.Since(start); d < o.MinHold || d > o.MinHold+2*slack(name)+100*time.Millisecond {
					t.Errorf("with %+v a waiter had it after %v", o, d)
				}
				mustUnlock(t, hold)
			}
			if n := f.Count(keepScript(name)); n != 1 {
				t.Errorf("it was kept %d times, want once", n)
			}
		}
		wantEmpty(t, s)
	})
}

// A lock that was held for as long as its MinHold is released as any other.
func TestMinHoldThatIsOver(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := must(t, k.Open(c, "job", mortise.LockOptions{MinHold: 40 * time.Second}), t.Context())
		next := later(t, t.Context(), k.Open(other, "job", mortise.LockOptions{}))
		time.Sleep(40 * time.Second)
		start := time.Now()
		mustUnlock(t, hold)
		mustUnlock(t, <-next)
		if d := time.Since(start); d > slack(name) {
			t.Errorf("the next had it after %v, want at once", d)
		}
		if n := f.Count(keepScript(name)); n != 0 {
			t.Errorf("it was kept %d times, want never", n)
		}
	})
}

// The MinHold counts from the acquisition, whichever hold is released last. A
// re-entry cannot ask for a longer one.
func TestMinHoldAndReentry(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, _ string, k kind) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		start := time.Now()
		kept := mortise.LockOptions{MinHold: 10 * time.Second}
		outer, _ := must(t, k.Open(c, "job", kept), owner)
		for _, o := range []mortise.LockOptions{{}, kept, {MinHold: time.Second}, {MaxHold: time.Minute}} {
			time.Sleep(time.Second)
			inner, _ := must(t, k.Open(c, "job", o), owner)
			mustUnlock(t, inner)
		}
		if _, _, err := k.Open(c, "job", mortise.LockOptions{MinHold: 11 * time.Second}).Lock(owner); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("re-entry with a longer MinHold: %v, want ErrInvalid", err)
		}
		last, _ := must(t, k.Open(c, "job", mortise.LockOptions{}), owner)
		mustUnlock(t, outer)
		mustUnlock(t, last)
		wantKept(t, owner, k, c, other)
		time.Sleep(10*time.Second + 10*time.Millisecond - time.Since(start))
		outer, _ = must(t, k.Open(c, "job", mortise.LockOptions{}), owner)
		if _, _, err := k.Open(c, "job", kept).Lock(owner); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("re-entry with a MinHold of a lock without: %v, want ErrInvalid", err)
		}
		mustUnlock(t, outer)
		wantHad(t, k.Open(other, "job", mortise.LockOptions{}))
	})
}

// Replies and requests are lost. The outcome is known, because a repeat sees that the lock is kept.
func TestMinHoldAndLostReplies(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		for i, lose := range []func(){
			func() { f.Set(nil, loseReplies(keepScript(name), 3)) },
			func() { f.Set(loseReplies(keepScript(name), 3), nil) },
		} {
			start := time.Now()
			hold, _ := must(t, k.Open(c, "job", mortise.LockOptions{MinHold: 10 * time.Second}), t.Context())
			lose()
			mustUnlock(t, hold)
			wantKept(t, t.Context(), k, c, other)
			time.Sleep(10*time.Second - 50*time.Millisecond - time.Since(start))
			wantKept(t, t.Context(), k, c, other)
			time.Sleep(100 * time.Millisecond)
			wantHad(t, k.Open(other, "job", mortise.LockOptions{}))
			if n := f.Count(keepScript(name)); n != 4*(i+1) {
				t.Errorf("%s was sent %d times, want %d", keepScript(name), n, 4*(i+1))
			}
		}
	})
}

// The reply to a release comes after the MinHold is over. It is nobody's release that is lost.
func TestMinHoldEndsDuringTheRelease(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, _ string, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := must(t, k.Open(c, "job", mortise.LockOptions{MinHold: time.Second}), t.Context())
		end := time.Now().Add(2 * time.Second)
		f.Set(func(context.Context, string) error {
			if time.Now().Before(end) {
				return errCut
			}
			return nil
		}, nil)
		mustUnlock(t, hold)
		time.Sleep(10 * time.Millisecond)
		wantHad(t, k.Open(other, "job", mortise.LockOptions{}))
	})
}

// A client that is closed leaves the lock taken for its MinHold, and for its TTL at least, because
// the work may go on.
func TestMinHoldOutlastsTheClient(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		for _, test := range []struct {
			o    mortise.LockOptions
			want time.Duration
		}{
			{mortise.LockOptions{MinHold: 2 * time.Minute}, 2 * time.Minute},
			{mortise.LockOptions{MinHold: 10 * time.Second}, 30 * time.Second},
			{mortise.LockOptions{TTL: time.Second, MinHold: 10 * time.Second}, 10 * time.Second},
		} {
			c, _ := open(t, s, nil)
			other, _ := open(t, s, nil)
			start := time.Now()
			hold, _ := must(t, k.Open(c, "job", test.o), t.Context())
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			_ = hold.Unlock()
			wantKept(t, t.Context(), k, other)
			mustUnlock(t, mustTake(t, k.Open(other, "job", mortise.LockOptions{})))
			if d := time.Since(start); d < test.want-time.Millisecond || d > test.want+slack(name) {
				t.Errorf("with %+v the next had it after %v, want %v", test.o, d, test.want)
			}
		}
	})
}

// A process that dies leaves the lock for its TTL, as without a MinHold.
func TestMinHoldOfADeadHolder(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		start := time.Now()
		must(t, k.Open(c, "job", mortise.LockOptions{TTL: 3 * time.Second, MinHold: time.Minute}), t.Context())
		f.Set(func(context.Context, string) error { return errCut }, nil) // to others, it is dead
		mustUnlock(t, mustTake(t, k.Open(other, "job", mortise.LockOptions{})))
		if d := time.Since(start); d > 3*time.Second+slack(name) {
			t.Errorf("the next had it after %v, want 3s", d)
		}
	})
}

// The hold was lost because Redis could not be reached, but the key is still there when it is
// released: the lock is kept then, too.
func TestMinHoldOfALostHold(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		start := time.Now()
		hold, ctx := must(t, k.Open(c, "job", mortise.LockOptions{MinHold: 2 * time.Minute, Margin: 5 * time.Second}), t.Context())
		f.Set(func(context.Context, string) error { return errCut }, nil)
		<-ctx.Done()
		f.Set(nil, nil)
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(10 * time.Second)
		wantKept(t, t.Context(), k, c, other)
		mustUnlock(t, mustTake(t, k.Open(other, "job", mortise.LockOptions{})))
		if d := time.Since(start); d < 2*time.Minute || d > 2*time.Minute+slack(name) {
			t.Errorf("the next had it after %v, want 2m", d)
		}
	})
}

// Redis does not answer a release for as long as the lease is trusted. The lock is kept when it
// answers again.
func TestMinHoldOfAFailedRelease(t *testing.T) {
	eachKeeper(t, func(t *testing.T, s *memredis.Server, name string, k kind) {
		c, f := open(t, s, &mortise.Options{UnlockFor: -1})
		other, _ := open(t, s, nil)
		start := time.Now()
		hold, _ := must(t, k.Open(c, "job", mortise.LockOptions{MinHold: 2 * time.Minute, Margin: 5 * time.Second}), t.Context())
		f.Set(func(context.Context, string) error { return errCut }, nil)
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("Unlock: %v, want ErrUnreachable", err)
		}
		f.Set(nil, nil)
		time.Sleep(10 * time.Second)
		wantKept(t, t.Context(), k, c, other)
		mustUnlock(t, mustTake(t, k.Open(other, "job", mortise.LockOptions{})))
		if d := time.Since(start); d < 2*time.Minute || d > 2*time.Minute+slack(name) {
			t.Errorf("the next had it after %v, want 2m", d)
		}
	})
}

// A lock that is kept can be freed by force, and by the name that it is kept under.
func TestForceUnlockOfAKeptLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for range 2 {
			hold, _ := mustLock(t, c.Lock("job").With(mortise.LockOptions{MinHold: time.Minute}), t.Context())
			mustUnlock(t, hold)
			wantState(t, c.Lock("job"), hold.Owner()+":kept", 1)
			if ok, err := other.Lock("job").UnlockOwner(t.Context(), hold.Owner()); ok || err != nil {
				t.Errorf("UnlockOwner of its former owner: %v, %v, want false", ok, err)
			}
			if ok, err := other.Lock("job").UnlockOwner(t.Context(), hold.Owner()+":kept"); !ok || err != nil {
				t.Errorf("UnlockOwner: %v, %v, want true", ok, err)
			}
			wantHad(t, other.Lock("job"))
		}
		w := c.RWLock("doc").Write()
		hold, _ := must(t, w.With(mortise.LockOptions{MinHold: time.Minute}), t.Context())
		mustUnlock(t, hold)
		wantRefused(t, other.RWLock("doc").Read(), strings.TrimSuffix(hold.Owner(), ":write")+":kept:write")
		if _, err := other.RWLock("doc").Write().ForceUnlock(t.Context()); err != nil {
			t.Error(err)
		}
		wantHad(t, other.RWLock("doc").Read())
	})
}

// A writer that goes on as a reader keeps nothing: other readers enter at once, and the lock is
// free after the last of them.
func TestMinHoldOfAWriterThatReads(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for _, least := range []time.Duration{2 * time.Second, time.Minute} {
			owner := mortise.WithOwner(t.Context())
			write, _ := must(t, c.RWLock("job").Write().With(mortise.LockOptions{MinHold: least}), owner)
			read, ctx := must(t, c.RWLock("job").Read(), owner)
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			waits := []<-chan *mortise.Hold{later(t, soon, c.RWLock("job").Read()), later(t, soon, other.RWLock("job").Read())}
			start := time.Now()
			mustUnlock(t, write)
			for _, next := range waits {
				hold, ok := <-next
				if !ok {
					t.Fatalf("with %v another reader does not get it", least)
				}
				mustUnlock(t, hold)
			}
			if d := time.Since(start); d > 20*time.Millisecond {
				t.Errorf("with %v other readers had it after %v, want at once", least, d)
			}
			time.Sleep(4 * time.Second)
			wantRefused(t, other.RWLock("job").Write(), read.Owner())
			if ctx.Err() != nil {
				t.Errorf("the reader was lost: %v", context.Cause(ctx))
			}
			mustUnlock(t, read)
			wantHad(t, other.RWLock("job").Write())
			wantEmpty(t, s)
		}
	})
}

// The lock is kept if its writer does not read any more, be it that the reader was released or
// lost. A reader that comes then is refused, whatever its owner.
func TestMinHoldOfAWriterThatHasRead(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for _, most := range []time.Duration{0, time.Second} {
			owner := mortise.WithOwner(t.Context())
			start := time.Now()
			write, _ := must(t, c.RWLock("job").Write().With(mortise.LockOptions{MinHold: time.Minute}), owner)
			read, ctx := must(t, c.RWLock("job").Read().With(mortise.LockOptions{MaxHold: most}), owner)
			if most == 0 {
				mustUnlock(t, read)
			}
			<-ctx.Done()
			time.Sleep(time.Second)
			mustUnlock(t, write)
			_ = read.Unlock()
			wantKept(t, owner, kinds["RWLock.Write"], c, other)
			for _, c := range []*mortise.Client{c, other} {
				wantRefused(t, c.RWLock("job").Read(), strings.TrimSuffix(write.Owner(), ":write")+":kept:write")
				if _, _, err := c.RWLock("job").Read().TryLock(owner); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("a reader with the same owner: %v, want ErrLocked", err)
				}
			}
			mustUnlock(t, mustTake(t, other.RWLock("job").Read()))
			if d := time.Since(start); d < time.Minute-time.Millisecond || d > time.Minute+20*time.Millisecond {
				t.Errorf("the next reader had it after %v, want a minute", d)
			}
			wantEmpty(t, s)
		}
	})
}

func TestMinHoldIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		o := mortise.LockOptions{MinHold: time.Second}
		for name, k := range map[string]taker{
			"reader":              c.RWLock("job").Read().With(o),
			"GroupLock":           c.GroupLock("job", "a").With(o),
			"MultiLock":           multi(c, "a", "b").With(o),
			"MultiLock of one":    mortise.NewMultiLock(c.Lock("job").With(o)),
			"Redlock":             mortise.NewRedlock("job", c).With(o),
			"negative":            c.Lock("job").With(mortise.LockOptions{MinHold: -1}),
			"too long":            c.Lock("job").With(mortise.LockOptions{MinHold: math.MaxInt64}),
			"beyond MaxHold":      c.Lock("job").With(mortise.LockOptions{MinHold: 2 * time.Second, MaxHold: time.Second}),
			"just beyond MaxHold": c.Lock("job").With(mortise.LockOptions{MinHold: time.Minute + 1, MaxHold: time.Minute}),
		} {
			_, _, err := k.Lock(t.Context())
			_, _, terr := k.TryLock(t.Context())
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) {
				t.Errorf("%s: %v and %v, want ErrInvalid", name, err, terr)
			}
		}
		if _, _, err := c.Election("job").With(o).Campaign(t.Context(), "me"); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("Campaign: %v, want ErrInvalid", err)
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
		}
	})
}
