package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestRWLockForceUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k, o := c.RWLock("doc"), other.RWLock("doc")
		wantNoneFreed(t, o)
		want := wantOneReaderFreed(t, k, o)
		wantHolders(t, k, "read", want[1], 1, want[2], 1)
		got := make(chan *mortise.Hold)
		go func() {
			h, _ := must(t, o.Write(), t.Context())
			got <- h
		}()
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		freed, err := o.Read().ForceUnlock(t.Context())
		if len(freed) != 2 || err != nil {
			t.Errorf("ForceUnlock: %v, %v, want two readers", freed, err)
		}
		writer := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("a writer came in %v after the readers were thrown out, want 0", d)
		}
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 0 || err != nil {
			t.Errorf("ForceUnlock of the read side while another writes: %v, %v, want none", freed, err)
		}
		if ok, err := k.Write().UnlockOwner(t.Context(), "nobody"); ok || err != nil {
			t.Errorf("UnlockOwner of nobody: %v, %v, want false", ok, err)
		}
		if ok, err := k.Write().UnlockOwner(t.Context(), writer.Owner()); !ok || err != nil {
			t.Errorf("UnlockOwner of the writer: %v, %v, want true", ok, err)
		}
		wantHolders(t, k, "")
		if err := writer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

// wantNoneFreed checks that a free lock has none to release by force.
func wantNoneFreed(t *testing.T, o *mortise.RWLock) {
	if freed, err := o.Read().ForceUnlock(t.Context()); freed != nil || err != nil {
		t.Errorf("ForceUnlock of a free read side: %v, %v, want nil", freed, err)
	}
	if freed, err := o.Write().ForceUnlock(t.Context()); freed != nil || err != nil {
		t.Errorf("ForceUnlock of a free write side: %v, %v, want nil", freed, err)
	}
}

// wantOneReaderFreed has three read with k, releases the first of them with o, and returns all three.
func wantOneReaderFreed(t *testing.T, k, o *mortise.RWLock) (want []string) {
	for range 3 {
		hold, _ := must(t, k.Read(), t.Context())
		want = append(want, hold.Owner())
	}
	if freed, err := o.Write().ForceUnlock(t.Context()); freed != nil || err != nil {
		t.Errorf("ForceUnlock of the write side while others read: %v, %v, want nil", freed, err)
	}
	if ok, err := o.Write().UnlockOwner(t.Context(), want[0]); ok || err != nil {
		t.Errorf("UnlockOwner of a reader on the write side: %v, %v, want false", ok, err)
	}
	if ok, err := o.Read().UnlockOwner(t.Context(), want[0]); !ok || err != nil {
		t.Errorf("UnlockOwner of a reader: %v, %v, want true", ok, err)
	}
	return want
}

// ForceUnlock reports what goes wrong, with the holders that were thrown out.
func TestRWLockForceUnlockThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		operator, f := open(t, s, &mortise.Options{RetryFor: time.Second})
		k, o := c.RWLock("doc"), operator.RWLock("doc")
		must(t, k.Read(), t.Context())
		must(t, k.Read(), t.Context())
		n := 0
		f.Set(func(_ context.Context, name string) error { // the second release is refused
			if name != "rw_read_release" {
				return nil
			}
			if n++; n == 1 {
				return nil
			}
			return &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
		}, nil)
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 1 || !errors.Is(err, mortise.ErrDenied) {
			t.Errorf("got %v, %v, want one reader and ErrDenied", freed, err)
		}
		f.Set(nil, nil)
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
			t.Errorf("got %v, %v, want the other reader", freed, err)
		}
		must(t, k.Write(), t.Context())
		f.Set(nil, loseReplies("rw_write_release", 1))
		if by, err := o.Write().ForceUnlock(t.Context()); by != nil || !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("with a lost reply: %v, %v, want ErrUnknownOutcome", by, err)
		}
		wantHolders(t, k, "")
		f.Set(func(context.Context, string) error { return errCut }, nil)
		for _, err := range []error{
			second(o.Read().ForceUnlock(t.Context())), second(o.Write().ForceUnlock(t.Context())),
			second(o.Write().UnlockOwner(t.Context(), "x")),
		} {
			if !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("got %v, want ErrUnreachable", err)
			}
		}
	})
}

// In the same process, a holder that is thrown out learns it at once.
func TestRWLockForceUnlockInTheSameProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		a, ctxA := must(t, k.Read(), t.Context())
		b, ctxB := must(t, k.Read(), t.Context())
		if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 2 || err != nil {
			t.Errorf("ForceUnlock: %v, %v, want two readers", freed, err)
		}
		wantLost(t, ctxA, a, mortise.LostForced, 0, 0)
		wantLost(t, ctxB, b, mortise.LostForced, 0, 0)
		w, ctx := must(t, k.Write(), t.Context())
		if by, err := k.Write().ForceUnlock(t.Context()); by == nil || err != nil {
			t.Errorf("ForceUnlock: %v, %v, want the writer", by, err)
		}
		wantLost(t, ctx, w, mortise.LostForced, 0, 0)
	})
}
