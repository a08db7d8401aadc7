package server

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// recordsUseTheirRights does all that can be done with the records of clients and with histories.
func recordsUseTheirRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	hold, ctx := mustLock(t, c.Lock(name), t.Context())
	wait, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		h, _, err := other.Lock(name).Lock(t.Context())
		if err == nil {
			err = h.Unlock()
		}
		wait <- err
	}()
	defer func() { <-done }()
	redistest.Eventually(t, "both clients are seen", func() error { return seen(t, c, other, name) })
	if asked, err := other.Ask(t.Context(), name, "please"); err != nil || len(asked) != 1 || !asked[0].Asked {
		t.Errorf("Ask = %+v, %v, want that the holder is asked", asked, err)
	}
	<-ctx.Done()
	if err := hold.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := <-wait; err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, "both acquisitions are in the history", func() error {
		list, err := c.History(t.Context(), name, 10)
		if err != nil {
			return err
		}
		if len(list) < 2 {
			return fmt.Errorf("it is %+v", list)
		}
		return nil
	})
	redistest.Eventually(t, "nobody is seen", func() error {
		if list, err := c.Clients(t.Context()); err != nil || len(list) != 0 {
			return fmt.Errorf("there are %+v, %v", list, fmt.Sprint(err))
		}
		return nil
	})
	for _, one := range []*mortise.Client{c, other} {
		if stats := one.Stats(); stats.Unrecorded != 0 || stats.Records == 0 {
			t.Errorf("%d records were written, %d were not", stats.Records, stats.Unrecorded)
		}
	}
}

// seen returns an error unless c is seen to hold a lock, and other to wait for it.
func seen(t *testing.T, c, other *mortise.Client, name string) error {
	state, err := other.Inspect(t.Context(), name)
	if err != nil || len(state.Holders) != 1 || state.Holders[0].Client == nil || state.Holders[0].Client.PID != os.Getpid() {
		return fmt.Errorf("Inspect = %+v, %v", state, fmt.Sprint(err))
	}
	queue, err := c.Queue(t.Context(), name)
	if err != nil || len(queue.Waiters) != 1 || queue.Waiters[0].Client == nil || queue.Waiters[0].Kind == "" || queue.Listeners < 0 {
		return fmt.Errorf("Queue = %+v, %v", queue, fmt.Sprint(err))
	}
	list, err := c.Clients(t.Context())
	if err != nil || len(list) != 2 {
		return fmt.Errorf("Clients = %+v, %v", list, fmt.Sprint(err))
	}
	return nil
}

// Without the rights to records and histories, locks work; what could not be written is counted, and
// what asks for it says that it was refused.
func TestRealWithoutTheRightsToRecords(t *testing.T) {
	s := redistest.Single(t)
	s.Must(t, documentedLine(t, "Lock")...)
	s.Must(t, documentedLine(t, "Inspect")...)
	r := withRights(t, s, "app:")
	hold, ctx := mustLock(t, r.c.Lock("job"), t.Context())
	redistest.Eventually(t, "a record is refused", func() error {
		if r.c.Stats().Unrecorded == 0 {
			return errors.New("none was yet")
		}
		return nil
	})
	if _, _, err := r.other.Lock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock: %v, want ErrLocked", err)
	}
	state, err := r.other.Inspect(t.Context(), "job")
	if err != nil || len(state.Holders) != 1 || state.Holders[0].Owner != hold.Owner() || state.Holders[0].Client != nil {
		t.Errorf("Inspect = %+v, %v, want the holder without a process", state, err)
	}
	_, clients := r.other.Clients(t.Context())
	_, queue := r.other.Queue(t.Context(), "job")
	_, ask := r.other.Ask(t.Context(), "job", "please")
	_, history := r.other.History(t.Context(), "job", 1)
	for name, err := range map[string]error{"Clients": clients, "Queue": queue, "Ask": ask, "History": history} {
		if !errors.Is(err, mortise.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", name, err)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("the hold has ended: %v", ctx.Err())
	}
	mustUnlock(t, hold)
}

// Those who only look need the rights that docs/protocol.md names for them.
func TestRealRightsOfThoseWhoLook(t *testing.T) {
	s := redistest.Single(t)
	s.Must(t, documentedLine(t, "Lock")...)
	s.Must(t, documentedLine(t, "Inspect")...)
	s.Must(t, documentedLine(t, "Records of clients")...)
	s.Must(t, redistest.Rules(t, "ACL", "SETUSER", "looks", "on", ">SECRET", "resetkeys", "~app:*", "~{app:*", "resetchannels", "nocommands",
		"+evalsha", "+eval", "+hello", "+ping", "+client|id", "+client|setname")...)
	s.Must(t, append([]string{"ACL", "SETUSER", "looks"}, documentedLine(t, "Inspect")[3:]...)...)
	s.Must(t, append([]string{"ACL", "SETUSER", "looks"}, redistest.Rules(t, documentedSentence(t, "who only look, these are enough: `([^`]+)`")...)...)...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "looks", Password: "SECRET", DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	looks := mortise.New(goredis.Wrap(rdb), &mortise.Options{Prefix: "app:"})
	defer looks.Close()
	r := withRights(t, s, "app:")
	for range 2 { // then there is a history
		hold, _ := mustLock(t, r.c.Lock("job"), t.Context())
		redistest.Eventually(t, "the holder is seen", func() error {
			state, err := looks.Inspect(t.Context(), "job")
			list, listed := looks.Clients(t.Context())
			queue, queued := looks.Queue(t.Context(), "job")
			_, history := looks.History(t.Context(), "job", 5)
			if err := errors.Join(err, listed, queued, history); err != nil || queue.Listeners != 0 {
				t.Fatal(err)
			}
			if len(list) != 1 || len(state.Holders) != 1 || state.Holders[0].Client == nil {
				return fmt.Errorf("there are %+v and %+v", list, state)
			}
			return nil
		})
		mustUnlock(t, hold)
	}
	for _, entry := range s.Must(t, "ACL", "LOG").([]any) {
		t.Errorf("refused: %v", entry)
	}
}
