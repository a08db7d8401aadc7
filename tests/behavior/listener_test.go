package behavior

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// listener is a client that may subscribe, and nothing else.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) Message(_, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, payload)
}

func (l *listener) Subscribed(string) {}

func (l *listener) Refused(string, error) {}

func (l *listener) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.heard, " ")
}

// listen subscribes to channels.
func listen(t *testing.T, s *memredis.Server, channels ...string) *listener {
	t.Helper()
	l := &listener{}
	d := s.Driver()
	sub := d.Subscriber(l)
	t.Cleanup(func() { _ = sub.Close(); _ = d.Close() })
	for _, channel := range channels {
		sub.Subscribe(channel, false)
	}
	synctest.Wait()
	return l
}

// deadWaiters are waiters of a client that has died, and the channel of its turns.
func deadWaiters(t *testing.T, s *memredis.Server, kind, channels string, n int) (channel string) {
	t.Helper()
	c, f := open(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []<-chan *mortise.Hold
	for range n {
		got = append(got, later(t, ctx, kinds[kind].Open(c, "job", mortise.LockOptions{})))
	}
	time.Sleep(1500 * time.Millisecond) // it has its turn
	v := do(t, s, "PUBSUB", "CHANNELS", channels)
	if v.Len() != 1 {
		t.Fatalf("clients listen to %v, want one channel", v)
	}
	f.Set(func(context.Context, string) error { return errCut }, nil)
	cancel()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		<-g
	}
	synctest.Wait() // until Redis knows that its connections have ended
	return v.At(0).Str()
}

// A client that may subscribe, and nothing else, hears to which id a lock was granted. If it
// subscribes to the channel of a client that died while it waited, the lock is granted to that
// client, and the next one waits until the grant is over, or until a fair lock's waiters have been
// silent for ten seconds. Neither gives it a hold, nor ends one.
func TestListenerDelaysAndNoMore(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		kind, channels string
		dead           int
		without        time.Duration // at most
		least, most    time.Duration // with a listener
	}{
		"Lock":                {"Lock", "mortise:turn:*", 1, 0, 2900 * time.Millisecond, 3100 * time.Millisecond},
		"Lock, many waiters":  {"Lock", "mortise:turn:*", 8, 0, 2900 * time.Millisecond, 3100 * time.Millisecond},
		"FencedLock":          {"FencedLock", "mortise:turn:*", 1, 0, 500 * time.Millisecond, 1200 * time.Millisecond},
		"FairLock":            {"FairLock", "mortise:fair_turn:*", 1, 2 * time.Second, 2900 * time.Millisecond, 3100 * time.Millisecond},
		"FairLock, many dead": {"FairLock", "mortise:fair_turn:*", 8, 2 * time.Second, 9 * time.Second, 12 * time.Second},
	} {
		for _, listens := range []bool{false, true} {
			t.Run(what+map[bool]string{true: " with a listener"}[listens], func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					holder, _ := open(t, s, nil)
					c, _ := open(t, s, nil)
					block := mustTake(t, kinds[test.kind].Open(holder, "job", mortise.LockOptions{}))
					dead := deadWaiters(t, s, test.kind, test.channels, test.dead)
					got := later(t, t.Context(), kinds[test.kind].Open(c, "job", mortise.LockOptions{}))
					l, least, most := &listener{}, time.Duration(0), test.without
					if listens {
						l, least, most = listen(t, s, dead), test.least, test.most
					}
					start := time.Now()
					mustUnlock(t, block)
					hold := <-got
					if late := time.Since(start); late < least || late > most {
						t.Errorf("the next waiter has the lock after %v, want %v to %v", late, least, most)
					}
					if heard := l.all(); listens == (heard == "") || strings.Contains(heard, hold.Owner()) {
						t.Errorf("the listener has heard %q, want the grants to the dead, and not the hold %s", heard, hold.Owner())
					}
					wantTrusted(t, s, hold)
					mustUnlock(t, hold)
				})
			})
		}
	}
}

// A client that subscribes to the announcements of a lock counts as a thread of Redisson's, to which
// a release leaves the lock for a moment.
func TestListenerCountsAsAThread(t *testing.T) {
	t.Parallel()
	for _, listens := range []bool{false, true} {
		t.Run(fmt.Sprint(listens), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				if listens {
					listen(t, s, "redisson_lock__channel:{job}")
				}
				holder, _ := open(t, s, nil)
				c, _ := open(t, s, nil)
				block, _ := mustLock(t, holder.Lock("job"), t.Context())
				got := later(t, t.Context(), c.Lock("job"))
				time.Sleep(1500 * time.Millisecond)
				start := time.Now()
				mustUnlock(t, block)
				hold := <-got
				if late := time.Since(start); listens != (late > 0) || late > 25*time.Millisecond {
					t.Errorf("with a listener %v, the next waiter has the lock after %v", listens, late)
				}
				mustUnlock(t, hold)
			})
		})
	}
}
