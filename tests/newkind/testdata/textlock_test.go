package mortise

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/waiting"
	"github.com/mortise-go/mortise/memredis"
)

// A declared kind has what all kinds have: re-entry, renewal of its leases, one wait queue
// for each client, hand-offs in the process, and notifications for waiters in other
// processes.
func TestTextLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		here, there := New(s.Driver(), nil), New(s.Driver(), nil)
		defer here.Close()
		defer there.Close()
		must := func(hold *Hold, ctx context.Context, err error) (*Hold, context.Context) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return hold, ctx
		}
		hold, ctx := must(here.TextLock("job").Lock(t.Context()))
		again, _ := must(here.TextLock("job").Lock(ctx))
		var held *HeldError
		if _, _, err := there.TextLock("job").TryLock(t.Context()); !errors.As(err, &held) || held.Owner != hold.Owner() {
			t.Errorf("TryLock of another client: %v, want it to be refused because of %s", err, hold.Owner())
		}
		time.Sleep(10 * time.Minute) // many leases
		if !hold.Valid() || again.Unlock() != nil || !hold.Valid() {
			t.Error("the lock is not held as long as its last hold")
		}

		// Two goroutines wait: that of the same client is handed the lease, whose id stays,
		// and that of another client is notified of the release.
		next := make(chan *Hold)
		for _, c := range []*Client{here, there} {
			go func() {
				hold, _, err := c.TextLock("job").Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				next <- hold
			}()
			synctest.Wait()
		}
		start, id := time.Now(), hold.Owner()
		for n := range 2 {
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
			if hold = <-next; (hold.Owner() == id) != (n == 0) {
				t.Errorf("the %d. of the waiters has the lease %s after %s", n+1, hold.Owner(), id)
			}
		}
		if waited := time.Since(start); waited > waiting.NextPoll()/2 {
			t.Errorf("they have waited for %v, want them to be woken", waited)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		wantNoKey(t, s.Driver(), "job")
	})
}

// wantNoKey fails if a key exists.
func wantNoKey(t *testing.T, d driver.Driver, name string) {
	exists := driver.Call{Script: driver.NewScript("exists", "return redis.call('exists', KEYS[1])"), Keys: []string{name}}
	if v, err := d.Eval(t.Context(), exists); err != nil || v.Int() != 0 {
		t.Errorf("after the last release the key exists: %v, %v", v, err)
	}
}
