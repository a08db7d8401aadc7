package behavior

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// publisher may publish, and nothing else.
func publisher(t *testing.T, s *memredis.Server) func(channel string, times int, messages ...string) {
	d := s.Driver()
	t.Cleanup(func() { _ = d.Close() })
	script := driver.NewScript("forge", `
		for _ = 1, tonumber(ARGV[1]) do
			for i = 2, #ARGV do redis.call('publish', KEYS[1], ARGV[i]) end
		end
		return 1`)
	return func(channel string, times int, messages ...string) {
		t.Helper()
		args := append([]string{fmt.Sprint(times)}, messages...)
		if _, err := d.Eval(t.Context(), driver.Call{Script: script, Keys: []string{channel}, Args: args}); err != nil {
			t.Fatal(err)
		}
	}
}

// nonceOf returns what only Redis and the waiter know.
func nonceOf(t *testing.T, s *memredis.Server, name, waiter string) string {
	t.Helper()
	entry := runScript(t, s, `return redis.call('hget', KEYS[1], '`+waiter+`')`, keyspace.FairOurs(name)).Str()
	_, nonce, ok := strings.Cut(entry, " ")
	if !ok || len(nonce) < 20 {
		t.Fatalf("the entry of %s is %q", waiter, entry)
	}
	return nonce
}

// A grant is that of the waiter it names, and has what only that waiter drew. The
// names of waiters are no secret: a client's is in that of its channel, and its
// waiters are numbered.
func TestFairForgedGrantIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, f := open(t, s, nil)
		forge := publisher(t, s)
		block := fairly(t, c)
		l := &line{t: t}
		l.join(t.Context(), other, 1, time.Second)
		l.join(t.Context(), other, 2, time.Second)
		queue := queueOf(t, c)
		first, second := queue[0], queue[1]
		client, _, _ := strings.Cut(first, ":")
		channel := keyspace.FairTurnChannel("job", client)
		nonce := nonceOf(t, s, "job", first)
		before := f.Total()
		for _, message := range []string{
			first, first + " ", first + " 1", second + " 1", second + " 2", first + " " + nonce + "x", first + " " + strings.ToLower(nonce),
			second + " " + nonce, client + ":999 " + nonce, client + ":999 1", " " + nonce, nonce, "?" + first + " " + nonce, first + "  " + nonce,
			"? " + nonce, "", " ",
		} {
			forge(channel, 1, message)
			synctest.Wait()
			if len(l.order) != 0 {
				t.Fatalf("%q is believed: waiter %v has the lock that another holds", message, l.order)
			}
			if !block.Valid() {
				t.Fatalf("after %q the holder has lost the lock", message)
			}
		}
		if n := f.Total() - before; n != 0 {
			t.Errorf("forged grants caused %d scripts, want none", n)
		}
		mustUnlock(t, block)
		l.want(1, 2)
	})
}

// Nobody can use a grant again that it has seen: its nonce is for one place.
func TestFairGrantIsForOnePlace(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, f := open(t, s, nil)
		forge := publisher(t, s)
		block := fairly(t, c)
		l := &line{t: t}
		l.join(t.Context(), other, 1, 0)
		waiter := queueOf(t, c)[0]
		client, _, _ := strings.Cut(waiter, ":")
		old := nonceOf(t, s, "job", waiter)
		// It is granted the lock, but learns it only by looking, when another has it.
		f.Set(func(context.Context, string) error { return &driver.Error{Class: driver.NotSent, Err: errCut} }, nil)
		runScript(t, s, `
			redis.call('lpop', KEYS[1]) redis.call('zrem', KEYS[2], '`+waiter+`') redis.call('hdel', KEYS[3], '`+waiter+`') return 1`,
			keyspace.FairQueue("job"), keyspace.FairDeadlines("job"), keyspace.FairOurs("job"))
		time.Sleep(2 * time.Second)
		f.Set(nil, nil)
		time.Sleep(2 * time.Second)
		if queue := queueOf(t, c); len(queue) != 1 || queue[0] != waiter {
			t.Fatalf("the queue is %v, want %s again", queue, waiter)
		}
		forge(keyspace.FairTurnChannel("job", client), 1, waiter+" "+old)
		synctest.Wait()
		if len(l.order) != 0 {
			t.Fatal("the waiter believes a grant that it was sent for a place that it has lost")
		}
		mustUnlock(t, block)
		l.want(1)
	})
}

// A grant for an id that is just being acquired, and that is no waiter's: nobody
// releases anything because of a message.
func TestFairForgedGrantOfWhatIsBeingAcquired(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		forge := publisher(t, s)
		block := fairly(t, other)
		l := &line{t: t}
		l.join(t.Context(), c, 1, 0) // so that c listens, and goes on to for a second
		mustUnlock(t, block)
		l.want(1)
		forged := ""
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "fair_acquire" {
				forged = runScript(t, s, `return redis.call('hkeys', KEYS[1])[1]`, "job").Str()
				client, _, _ := strings.Cut(forged, ":")
				forge(keyspace.FairTurnChannel("job", client), 1, forged+" 1", "?"+forged)
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
		hold, _, err := c.FairLock("job").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if forged != hold.Owner() {
			t.Fatalf("%q was forged, and %q has the lock", forged, hold.Owner())
		}
		time.Sleep(5 * time.Second)
		if n := f.Count("fair_release"); n != 1 {
			t.Errorf("%d releases after one unlock, want 1", n)
		}
		wantTrusted(t, s, hold)
		if _, _, err := other.FairLock("job").TryLock(t.Context()); err == nil {
			t.Error("another has the lock, too")
		}
		mustUnlock(t, hold)
	})
}

// Whatever is sent to a client, it asks Redis no more than 200 times a second for
// each lock, however many of its waiters are named, and starts nothing.
func TestFairForgedFlood(t *testing.T) {
	for _, waiters := range []int{1, 40} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			alone(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, f := open(t, s, nil)
				forge := publisher(t, s)
				block := fairly(t, c)
				l := &line{t: t}
				var want []int
				for i := range waiters {
					l.join(t.Context(), other, i, 0)
					want = append(want, i)
				}
				queue := queueOf(t, c)
				client, _, _ := strings.Cut(queue[0], ":")
				var messages []string
				for i := range 10 {
					id := queue[i%len(queue)]
					messages = append(messages, id+" 1", "?"+id, fmt.Sprint("?", client, ":", 1000+i), fmt.Sprint(client, ":", 1000+i, " 1"),
						"~", "?", "", strings.Repeat("x", 1000), id, "?"+id+" 1")
				}
				const seconds = 2
				before, goroutines := f.Total(), locktest.Goroutines()
				for i := range seconds * 20 {
					forge(keyspace.FairTurnChannel("job", client), 10, messages...) // 40,000 in all
					for _, id := range queue[:min(3, len(queue))] {
						forge(keyspace.FairChannel("job", id), 10, "0", "what")
					}
					if i == seconds*10 {
						if n := locktest.Goroutines() - goroutines; n > 20 {
							t.Errorf("the flood has started %d goroutines, want 20 at most", n)
						}
					}
					time.Sleep(time.Second / 20)
				}
				if n := f.Total() - before; n > seconds*220 {
					t.Errorf("40,000 forged messages in %ds caused %d scripts, want 200 a second at most", seconds, n)
				} else {
					t.Logf("40,000 forged messages in %ds caused %d scripts", seconds, n)
				}
				start := time.Now()
				mustUnlock(t, block)
				l.want(want...)
				if d := time.Since(start); d > 200*time.Millisecond {
					t.Errorf("after the flood the lock came after %v, want %v at most", d, 200*time.Millisecond)
				}
			})
		})
	}
}

// One that gave up leaves the queue, whatever is lost: its request to do so, or
// the reply to the one that queued it; or that one arrives only then. Nobody would
// tell it that it is there.
func TestFairWaiterThatGaveUpIsGoneWhateverIsLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(f *faults)
		after  func(f *faults)
	}{
		"leaving, for long": {
			func(f *faults) {},
			func(f *faults) {
				f.Set(func(_ context.Context, name string) error {
					if name == "fair_release" {
						return errCut
					}
					return nil
				}, nil)
			},
		},
		"the reply": {
			func(f *faults) { f.Set(nil, loseReplies("fair_acquire", 1000)) },
			func(f *faults) {},
		},
		"the request, for a while": {
			func(f *faults) { f.DeliverLate(2 * time.Second) },
			func(f *faults) { f.DeliverLate(0) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				f := &faults{Driver: s.Driver()}
				quitter := mortise.New(f, &mortise.Options{RetryFor: 1100 * time.Millisecond})
				defer quitter.Close()
				block := fairly(t, c)
				l := &line{t: t}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				stays, end := context.WithCancel(t.Context())
				l.join(stays, quitter, 1, 0) // so that its client shows life
				test.before(f)
				l.join(ctx, quitter, 2, 0)
				<-ctx.Done()
				synctest.Wait()
				test.after(f)
				time.Sleep(2500 * time.Millisecond)
				f.InFlight.Wait()
				f.Set(nil, nil)
				time.Sleep(9 * time.Second)
				if queue := queueOf(t, c); len(queue) != 1 {
					t.Errorf("the queue is %v, want the one that did not give up", queue)
				}
				start := time.Now()
				mustUnlock(t, block)
				l.want(1)
				if d := time.Since(start); d != 0 {
					t.Errorf("the one that gave up delayed the next by %v, want 0", d)
				}
				end()
			})
		})
	}
}
