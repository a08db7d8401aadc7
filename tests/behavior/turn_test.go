package behavior

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// The message that a lock was granted, or is free, can come after the client has
// asked by itself, and been told that it has it. Then it is no reason to release
// it.
func TestMessageOfALockThatIsHeldAlready(t *testing.T) {
	t.Parallel()
	kinds := map[string]struct {
		open    func(c *mortise.Client) waiting
		channel func(name, client string) string
	}{
		"Lock":     {func(c *mortise.Client) waiting { return c.Lock("job") }, keyspace.TurnChannel},
		"FairLock": {func(c *mortise.Client) waiting { return c.FairLock("job") }, keyspace.FairTurnChannel},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				c, f := open(t, s, nil)
				first, _, err := kind.open(holder).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := make(chan *mortise.Hold, 1)
				go func() {
					hold, _, err := kind.open(c).Lock(t.Context())
					if err != nil {
						t.Error(err)
					}
					got <- hold
				}()
				synctest.Wait() // it listens, and has a turn
				mustUnlock(t, first)
				hold := <-got
				client, _, _ := strings.Cut(hold.Owner(), ":")
				for _, message := range []string{hold.Owner() + " 1", "?" + hold.Owner()} {
					call := driver.Call{Script: publish, Keys: []string{"job"}, Args: []string{kind.channel("job", client), message}}
					if subscribers, err := f.Eval(t.Context(), call); err != nil || subscribers.Int() != 1 {
						t.Fatalf("got %d subscribers of the client's channel, %v, want 1", subscribers.Int(), err)
					}
					synctest.Wait()
				}
				if err := hold.Unlock(); err != nil {
					t.Errorf("unlock after the late message: %v", err)
				}
			})
		})
	}
}

// waiting is what can be waited for.
type waiting interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// post is a driver whose messages take their time, or are lost.
type post struct {
	driver.Driver

	mu   sync.Mutex // guards fate
	fate func(channel, payload string) (delay time.Duration, lost bool)
}

func (p *post) set(fate func(channel, payload string) (time.Duration, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = fate
}

func (p *post) Subscriber(sink driver.Sink) driver.Subscriber {
	s := &postbox{Sink: sink, post: p, closed: make(chan struct{})}
	s.Subscriber = p.Driver.Subscriber(s)
	return s
}

// postbox is a subscriber, and the sink of the one beneath it.
type postbox struct {
	driver.Sink
	driver.Subscriber
	post   *post
	closed chan struct{}
	late   sync.WaitGroup
}

func (s *postbox) Message(channel, payload string) {
	s.post.mu.Lock()
	fate := s.post.fate
	s.post.mu.Unlock()
	delay, lost := time.Duration(0), false
	if fate != nil {
		delay, lost = fate(channel, payload)
	}
	switch {
	case lost:
	case delay == 0:
		s.Sink.Message(channel, payload)
	default:
		s.late.Go(func() {
			select {
			case <-time.After(delay):
				s.Sink.Message(channel, payload)
			case <-s.closed:
			}
		})
	}
}

func (s *postbox) Close() error {
	err := s.Subscriber.Close() // no message comes after it
	close(s.closed)
	s.late.Wait()
	return err
}

// openPost is open for a client whose messages can be delayed and lost.
func openPost(t *testing.T, s *memredis.Server) (*mortise.Client, *faults, *post) {
	t.Helper()
	p := &post{Driver: s.Driver()}
	f := &faults{Driver: p}
	c := mortise.New(f, nil)
	t.Cleanup(func() { _ = c.Close() })
	return c, f, p
}

// takesTurns are the kinds of lock that Redis grants to a waiter.
func takesTurns(t *testing.T, f func(t *testing.T, s *memredis.Server, k kind)) {
	t.Helper()
	for _, name := range []string{"Lock", "FairLock"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) { f(t, s, kinds[name]) })
		})
	}
}

func mustTake(t *testing.T, k taker) *mortise.Hold {
	t.Helper()
	hold, _, err := k.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// later has a goroutine take k, and returns when it waits.
func later(t *testing.T, ctx context.Context, k taker) <-chan *mortise.Hold {
	t.Helper()
	got := make(chan *mortise.Hold, 1)
	go func() {
		defer close(got)
		if hold, _, err := k.Lock(ctx); err == nil {
			got <- hold
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	time.Sleep(time.Millisecond) // waiters of the same microsecond are in no order
	return got
}

// wantTrusted checks that the lock is the hold's in Redis, for as long at least
// as the hold is trusted.
func wantTrusted(t *testing.T, s *memredis.Server, h *mortise.Hold) {
	t.Helper()
	if !h.Valid() {
		t.Fatalf("the hold of %s is not valid", h.Owner())
	}
	trust := time.Until(h.Until()) // which only grows
	v := runScript(t, s, `return {redis.call('hexists', KEYS[1], '`+h.Owner()+`'), redis.call('pttl', KEYS[1])}`, h.Name())
	left := time.Duration(v.At(1).Int()) * time.Millisecond
	if v.At(0).Int() != 1 || trust > left {
		t.Fatalf("the hold is trusted for %v; in Redis it is there: %v, for %v", trust, v.At(0).Int() == 1, left)
	}
}

// The waiter finds the lock when it looks; the message of the grant comes later.
func TestMessageOvertakenByALook(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{1200 * time.Millisecond, 1800 * time.Millisecond, 2500 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				holder, _ := open(t, s, nil)
				next, _ := open(t, s, nil)
				c, _, p := openPost(t, s)
				block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
				got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				time.Sleep(500 * time.Millisecond)
				after := later(t, t.Context(), k.Open(next, "job", mortise.LockOptions{}))
				p.set(func(string, string) (time.Duration, bool) { return delay, false })
				start := time.Now()
				mustUnlock(t, block)
				hold := <-got
				if d := time.Since(start); d == 0 || d > 1100*time.Millisecond {
					t.Errorf("the waiter has the lock after %v, want it to look after about a second", d)
				}
				wantToKeep(t, s, hold, after)
			})
		})
	}
}

// wantToKeep checks that nobody else has the lock before the hold is released.
func wantToKeep(t *testing.T, s *memredis.Server, hold *mortise.Hold, other <-chan *mortise.Hold) {
	t.Helper()
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		wantTrusted(t, s, hold)
	}
	select {
	case h := <-other:
		t.Fatalf("%s has the lock, too", h.Owner())
	default:
	}
	mustUnlock(t, hold)
	hold = <-other
	wantTrusted(t, s, hold)
	mustUnlock(t, hold)
}

// A process is frozen while it is granted the lock, and goes on when another has
// it. It reads the message of the grant before it learns that, or after. If its
// first answer is lost, the next one does not show that there was a grant.
func TestMessageOfATurnThatIsOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message, answer time.Duration // when they come; the answer is that to an attempt
		heartbeat       time.Duration // when the answer to a heartbeat comes
		lost            int           // answers to attempts
	}{
		"before any answer":       {800 * time.Millisecond, time.Second, time.Second, 0},
		"before the answer":       {800 * time.Millisecond, time.Second, 0, 0},
		"after the answer":        {700 * time.Millisecond, 0, 0, 0},
		"after the second answer": {700 * time.Millisecond, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				holder, _ := open(t, s, nil)
				next, _ := open(t, s, nil)
				c, f, p := openPost(t, s)
				block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
				got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				after := later(t, t.Context(), k.Open(next, "job", mortise.LockOptions{}))
				thaw := time.Now().Add(4 * time.Second)
				unsent := &driver.Error{Class: driver.NotSent, Err: errors.New("frozen by the test")}
				lose := loseReplies(k.Acquire, test.lost)
				f.Set(func(context.Context, string) error {
					if time.Now().Before(thaw) {
						return unsent
					}
					return nil
				}, func(ctx context.Context, name string) error {
					switch {
					case time.Since(thaw) >= time.Second:
					case name == k.Acquire:
						time.Sleep(test.answer)
					default:
						time.Sleep(test.heartbeat)
					}
					return lose(ctx, name)
				})
				p.set(func(string, string) (time.Duration, bool) { return max(0, time.Until(thaw)+test.message), false })
				mustUnlock(t, block)
				wantToKeep(t, s, <-after, got)
			})
		})
	}
}

// A request that asks without queueing goes first if it is refused. One that has queued
// meanwhile must not ask with the same id.
func TestTurnIsThatOfOneGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block, _ := mustLock(t, holder.Lock("job"), t.Context())
		asked := 0
		f.Set(func(_ context.Context, name string) error {
			if name != "lock_acquire" {
				return nil
			}
			if asked++; asked == 2 {
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		}, func(_ context.Context, name string) error {
			if name == "lock_acquire" && asked == 1 {
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		})
		first := later(t, t.Context(), c.Lock("job"))
		second := later(t, t.Context(), c.Lock("job"))
		time.Sleep(2 * time.Second) // more than a look
		mustUnlock(t, block)
		wantToKeep(t, s, <-first, second)
		wantEmpty(t, s)
	})
}

// The lock is granted to a waiter while the refusal of its last attempt is on its way. The
// grant came after the start of that attempt, and maybe before its reply.
func TestGrantBehindARefusalIsTrustedFromTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		got := later(t, t.Context(), c.Lock("job"))
		refused := make(chan struct{})
		f.Set(unsent("renew"), func(_ context.Context, script string) error {
			if script == "lock_acquire" {
				refused <- struct{}{}
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		})
		<-refused
		mustUnlock(t, block)
		hold := <-got
		wantTrusted(t, s, hold)
		f.Set(nil, nil)
		mustUnlock(t, hold)
	})
}
