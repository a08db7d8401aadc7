package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// HoldFrom finds the innermost hold, through whatever contexts descend from its own.
func TestHoldFrom(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		from := func(ctx context.Context, want *mortise.Hold) {
			t.Helper()
			if got, ok := mortise.HoldFrom(ctx); got != want || ok != (want != nil) {
				t.Errorf("HoldFrom = %p, %v, want %p", got, ok, want)
			}
		}
		from(t.Context(), nil)
		from(mortise.WithOwner(t.Context()), nil)
		outer, octx := mustLock(t, c.Lock("outer"), t.Context())
		from(octx, outer)
		from(mortise.Detach(octx), outer)
		child, cancel := context.WithTimeout(octx, time.Hour)
		defer cancel()
		from(child, outer)
		from(context.WithoutCancel(child), outer)

		inner, ictx := mustLock(t, c.Lock("inner"), child)
		from(ictx, inner)
		again, actx := mustLock(t, c.Lock("inner"), ictx) // re-enters
		from(actx, again)
		mustUnlock(t, again)
		from(actx, again)
		if again.Valid() || !inner.Valid() {
			t.Errorf("the released hold is valid: %v, the other: %v; want false and true", again.Valid(), inner.Valid())
		}
		from(octx, outer)
		mustUnlock(t, inner)
		mustUnlock(t, outer)
		from(octx, outer)
	})
}

// What is given only the context of a hold of any kind finds the hold.
func TestHoldFromOfEachKind(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		noError := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		noError(c.PermitSemaphore("permits").SetPermits(t.Context(), 1))
		for _, k := range []interface {
			Do(ctx context.Context, f func(context.Context) error) error
		}{
			c.Lock("lock"), c.SpinLock("spin"), c.FairLock("fair"), c.GroupLock("group", "v"),
			c.RWLock("r").Read(), c.RWLock("w").Write(), mortise.NewMultiLock(c.Lock("a"), c.Lock("b")),
			mortise.NewRedlock("red", c), c.PermitSemaphore("permits"),
		} {
			noError(k.Do(t.Context(), func(ctx context.Context) error {
				hold, ok := mortise.HoldFrom(ctx)
				if !ok || !hold.Valid() {
					t.Errorf("%T: HoldFrom = %v, %v, want a valid hold", k, hold, ok)
				}
				return nil
			}))
		}
		noError(c.FencedLock("fenced").Do(t.Context(), func(ctx context.Context) error {
			if hold, _ := mortise.HoldFrom(ctx); hold.Name() != "fenced" || hold.Token() != 1 {
				t.Errorf("HoldFrom = hold of %q with token %d, want fenced and 1", hold.Name(), hold.Token())
			}
			return nil
		}))
		term, ctx := mustLead(t, c.Election("lead"), t.Context(), "v")
		if hold, ok := mortise.HoldFrom(ctx); !ok || hold.Token() != term.Token() {
			t.Errorf("HoldFrom of a term = %v, %v, want a hold with its token", hold, ok)
		}
		noError(term.Resign())
	})
}

// A party of a double barrier leaves by Leave only: the others would not learn of anything else.
func TestHoldOfAPartyIsNotUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		m, ctx, err := c.DoubleBarrier("job", 1).Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		hold, ok := mortise.HoldFrom(ctx)
		if !ok || !hold.Valid() {
			t.Fatalf("HoldFrom = %v, %v, want the hold of the party", hold, ok)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrInvalid) || !hold.Valid() || ctx.Err() != nil {
			t.Errorf("Unlock = %v, want ErrInvalid, and the party inside", err)
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Errorf("Leave = %v", err)
		}
		wantEmpty(t, s)
	})
}
