package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/mortise-go/mortise"
)

// MustLock acquires a lock that the test expects to be free.
func MustLock(t *testing.T, k *mortise.Lock, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

// MustUnlock releases a hold that the test expects to be valid.
func MustUnlock(t *testing.T, h *mortise.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// WantState checks the lock in Redis: the owner and its count, or free.
func WantState(t *testing.T, k *mortise.Lock, owner string, count int) {
	t.Helper()
	s, err := k.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		if s.Locked {
			t.Errorf("the lock is held by %v, want free", s.Holders)
		}
		return
	}
	if len(s.Holders) != 1 || s.Holders[0].Owner != owner || s.Holders[0].Count != count {
		t.Errorf("the lock is held by %v, want %s with count %d", s.Holders, owner, count)
	}
}

// WantNotDurable checks an error and the numbers in it.
func WantNotDurable(t *testing.T, err error, acknowledged, wanted int) {
	t.Helper()
	var short *mortise.NotDurableError
	if !errors.Is(err, mortise.ErrNotDurable) || !errors.As(err, &short) {
		t.Errorf("got %v, want ErrNotDurable", err)
	} else if short.Acknowledged != acknowledged || short.Wanted != wanted {
		t.Errorf("got %v, want %d of %d", err, acknowledged, wanted)
	}
}

// WantToken checks the token that was drawn last.
func WantToken(t *testing.T, k *mortise.FencedLock, want int64) {
	t.Helper()
	if got, err := k.CurrentToken(t.Context()); err != nil || got != want {
		t.Errorf("CurrentToken = %d, %v, want %d", got, err, want)
	}
}

// MustFence acquires a lock that draws fencing tokens.
func MustFence(t *testing.T, k Taker, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

// Multi is a MultiLock of plain locks of one client.
func Multi(c *mortise.Client, names ...string) *mortise.MultiLock {
	var locks []mortise.Locker
	for _, name := range names {
		locks = append(locks, c.Lock(name))
	}
	return mortise.NewMultiLock(locks...)
}

// MustMulti acquires a MultiLock that the test expects to be free.
func MustMulti(t *testing.T, m *mortise.MultiLock, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

// Must acquires a lock of any kind that the test expects to be free.
func Must(t *testing.T, k Taker, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

// WantRefused checks that an attempt is refused because of the given holder.
func WantRefused(t *testing.T, k Taker, by string) {
	t.Helper()
	_, _, err := k.TryLock(t.Context())
	var held *mortise.HeldError
	if !errors.As(err, &held) || !errors.Is(err, mortise.ErrLocked) || held.Owner != by {
		t.Errorf("TryLock: %v, want to be refused because of %s", err, by)
	}
}

// WantHad checks that a lock can be acquired at once, and releases it.
func WantHad(t *testing.T, k Taker) {
	t.Helper()
	hold, _, err := k.TryLock(t.Context())
	if err != nil {
		t.Errorf("TryLock: %v, want the lock", err)
		return
	}
	MustUnlock(t, hold)
}

// WantHolders checks the lock in Redis: pairs of owner and count.
func WantHolders(t *testing.T, k *mortise.RWLock, mode string, want ...any) {
	t.Helper()
	s, err := k.Read().Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]int{}
	for _, h := range s.Holders {
		holders[h.Owner] = h.Count
	}
	same := s.Mode == mode && len(holders) == len(want)/2
	for i := 0; i < len(want); i += 2 {
		same = same && holders[want[i].(string)] == want[i+1]
	}
	if !same {
		t.Errorf("the lock is %+v, want %s %v", s, mode, want)
	}
}
