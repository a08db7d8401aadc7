package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// The context of a hold itself ends with the hold: not with that of the caller, but when it is lost or released.
func TestHoldContextOutlivesTheCaller(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		for _, late := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				outliveTheCaller(t, s, k, late, lost)
			}
		}
	})
}

// outliveTheCaller has a hold lost or released. If late, its context is asked for only then.
func outliveTheCaller(t *testing.T, s *memredis.Server, k kind, late, lost bool) {
	c, f := open(t, s, nil)
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "value"), time.Hour)
	hold, lctx, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if lctx.Err() == nil {
		t.Error("the context of Lock outlives the caller's")
	}
	var asked []context.Context
	ask := func() {
		derived, stop := context.WithCancel(hold.Context())
		t.Cleanup(stop)
		asked = append(asked, hold.Context(), derived)
	}
	if !late {
		ask()
		wantOwnContext(t, k, c, hold)
	}
	want := mortise.ErrReleased
	if lost {
		want = mortise.ErrLost
		f.Set(hang, nil)
		time.Sleep(time.Minute)
		f.Set(nil, nil)
	} else {
		mustUnlock(t, hold)
	}
	if late {
		ask()
	}
	for _, ctx := range asked {
		select {
		case <-ctx.Done():
		default:
			t.Error("the context has not ended")
		}
		if cause := context.Cause(ctx); ctx.Err() != context.Canceled || !errors.Is(cause, want) {
			t.Errorf("it ended with %v, because of %v, want %v", ctx.Err(), cause, want)
		}
	}
	_ = hold.Unlock()
}

type valueKey struct{}

// wantOwnContext checks the context of a hold that lasts.
func wantOwnContext(t *testing.T, k kind, c *mortise.Client, hold *mortise.Hold) {
	t.Helper()
	own := hold.Context()
	if _, limited := own.Deadline(); own.Err() != nil || limited || own.Value(valueKey{}) != "value" {
		t.Fatalf("after the end of the caller's: %v, value %v", own.Err(), own.Value(valueKey{}))
	}
	if in, ok := mortise.HoldFrom(own); !ok || in != hold {
		t.Error("the context does not have its hold")
	}
	again, _, err := k.Open(c, "job", mortise.LockOptions{}).TryLock(own)
	if err != nil {
		t.Fatalf("no re-entry: %v", err)
	}
	mustUnlock(t, again)
}
