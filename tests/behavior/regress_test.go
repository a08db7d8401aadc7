package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

func wantRegressed(t *testing.T, err error, seen, drawn int64) {
	t.Helper()
	var e *mortise.FenceError
	if !errors.Is(err, mortise.ErrFenceRegressed) || !errors.As(err, &e) || *e != (mortise.FenceError{Key: "redisson_lock_token:{job}", Seen: seen, Drawn: drawn}) {
		t.Errorf("got %v, want ErrFenceRegressed for %d after %d", err, drawn, seen)
	}
}

const loseTokens = `return redis.call('del', KEYS[2])`

// Tokens that Redis has lost start again from 1. No client that has seen higher ones
// gets a lock with them, and nothing stays behind.
func TestTokensThatGoBackAreNoticed(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(k *mortise.FencedLock) (*mortise.Hold, error){
		"Lock": func(k *mortise.FencedLock) (*mortise.Hold, error) {
			h, _, err := k.Lock(context.Background())
			return h, err
		},
		"TryLock": func(k *mortise.FencedLock) (*mortise.Hold, error) {
			h, _, err := k.TryLock(context.Background())
			return h, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				k := c.FencedLock("job")
				for range 3 {
					hold, err := take(k)
					if err != nil {
						t.Fatal(err)
					}
					mustUnlock(t, hold)
				}
				run(t, s, loseTokens)
				for drawn := range int64(3) {
					_, err := take(c.FencedLock("job"))
					wantRegressed(t, err, 3, drawn+1)
					wantState(t, c.Lock("job"), "", 0)
				}
				hold, err := take(k) // they have risen above what was seen
				if err != nil || hold.Token() != 4 {
					t.Fatalf("the next one: %v, %v; want token 4", hold, err)
				}
				mustUnlock(t, hold)
				run(t, s, `return redis.call('set', KEYS[2], 2)`)
				_, err = take(k)
				wantRegressed(t, err, 4, 3)
				run(t, s, `return redis.call('set', KEYS[2], 4)`) // as the text says
				hold, err = take(k)
				if err != nil || hold.Token() != 5 {
					t.Fatalf("after the remedy: %v, %v; want token 5", hold, err)
				}
				mustUnlock(t, hold)
			})
		})
	}
}

// One that waits gets it from the release, and so does the next in the process,
// which draws its token by a re-entry.
func TestTokensThatGoBackUnderAHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.FencedLock("job")
		for range 4 {
			hold, _ := mustFence(t, k, t.Context())
			mustUnlock(t, hold)
		}
		first, ctx := mustFence(t, k, t.Context())
		run(t, s, loseTokens)
		_, _, err := k.Lock(ctx)
		wantRegressed(t, err, 5, 1)
		synctest.Wait()
		if s, err := k.Inspect(t.Context()); err != nil || len(s.Holders) != 1 || s.Holders[0].Count != 1 || first.Token() != 5 || !first.Valid() {
			t.Errorf("after a re-entry that was refused: %+v, %v, token %d; want a count of 1 and the token 5", s, err, first.Token())
		}
		var all sync.WaitGroup
		results := make(chan error, 1)
		all.Go(func() {
			hold, _, err := k.Lock(t.Context())
			if err == nil {
				_ = hold.Unlock() // so that the other one is let in
			}
			results <- err
		})
		synctest.Wait()
		var elsewhere *mortise.Hold
		all.Go(func() {
			time.Sleep(time.Millisecond)
			var err error
			if elsewhere, _, err = other.FencedLock("job").Lock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		mustUnlock(t, first)
		wantRegressed(t, <-results, 5, 2)
		all.Wait()
		if elsewhere.Token() != 3 { // that client has seen no higher one
			t.Errorf("the token of a client that knows none is %d, want 3", elsewhere.Token())
		}
		mustUnlock(t, elsewhere)
		wantEmpty(t, s)
	})
}

// Several that are answered in another order than they were drawn are none.
func TestTokensThatAreAnsweredInAnotherOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		slow := true
		var mu sync.Mutex
		f.Set(nil, func(ctx context.Context, name string) error {
			mu.Lock()
			wait := slow && name == "fenced_acquire"
			slow = slow && !wait
			mu.Unlock()
			if wait {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		var all sync.WaitGroup
		all.Go(func() {
			hold, _, err := c.FencedLock("job").TryLock(t.Context())
			if err != nil {
				t.Errorf("the answer that is late: %v", err)
				return
			}
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("Unlock: %v, want ErrLost", err)
			}
		})
		time.Sleep(time.Second)
		run(t, s, `return redis.call('del', KEYS[1])`)
		hold, _, err := c.FencedLock("job").TryLock(t.Context())
		if err != nil || hold.Token() != 2 {
			t.Fatalf("got %v, %v; want the token 2", hold, err)
		}
		all.Wait()
		_ = hold.Unlock()
	})
}

// The numbers of terms are tokens as well.
func TestTermsThatGoBackAreNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		e := c.Election("job")
		for range 2 {
			term, _, err := e.Campaign(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			if err := term.Resign(); err != nil {
				t.Fatal(err)
			}
		}
		run(t, s, loseTokens)
		_, _, err := e.Campaign(t.Context(), "x")
		wantRegressed(t, err, 2, 1)
		wantLeader(t, e, "", 0)
	})
}

// A process that was frozen while Redis answered asks again: it holds nothing, so
// it has lost nothing. Where answers always take longer than a lease, it says so.
func TestAnswerAfterTheTimeOfTheLease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		late int // how many answers are
		want error
	}{
		"once":   {1, nil},
		"always": {1 << 30, mortise.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			for kindName, kind := range kinds {
				for _, wait := range []bool{true, false} {
					t.Run(kindName, func(t *testing.T) {
						bubble(t, func(t *testing.T, s *memredis.Server) {
							c, f := open(t, s, nil)
							var mu sync.Mutex
							left := test.late
							f.Set(nil, func(ctx context.Context, name string) error {
								mu.Lock()
								late := name == kind.Acquire && left > 0
								if late {
									left--
								}
								mu.Unlock()
								if late {
									time.Sleep(5 * time.Second)
								}
								return nil
							})
							k := kind.Open(c, "job", mortise.LockOptions{MaxHold: 4 * time.Second})
							take := k.TryLock
							if wait {
								take = k.Lock
							}
							start := time.Now()
							hold, _, err := take(t.Context())
							if test.want != nil {
								if !errors.Is(err, test.want) || errors.Is(err, mortise.ErrLost) || time.Since(start) > time.Minute {
									t.Errorf("after %v: %v, want ErrUnreachable, and nothing lost", time.Since(start), err)
								}
								return
							}
							if err != nil {
								t.Fatalf("the second answer was in time: %v", err)
							}
							mustUnlock(t, hold)
							wantEmpty(t, s)
						})
					})
				}
			}
		})
	}
}
