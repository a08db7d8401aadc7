package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// slowly is how long Redis takes for a reply in these tests.
const slowly = 5 * time.Millisecond

// replySlowly delays what is sent to Redis, or its reply, unless the caller gives up first.
func replySlowly(ctx context.Context, _ string) error {
	select {
	case <-time.After(slowly):
		return nil
	case <-ctx.Done():
		return hang(ctx, "")
	}
}

// wantLockedFor checks the error of a wait whose limit cut off an attempt, after another
// owner had the lock until then.
func wantLockedFor(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, mortise.ErrLocked) || errors.Is(err, mortise.ErrUnreachable) {
		t.Errorf("%s: %v, want only ErrLocked", what, err)
	}
}

// The lock becomes free so late that the limit ends while the waiter asks for it, or for the
// fencing token of the hold that it is handed. Nothing stays behind.
func TestLimitDuringTheAttemptAfterAWait(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		for _, by := range []*mortise.Client{c, other} {
			for early := slowly / 5; early <= 3*slowly; early += slowly * 2 / 5 {
				for _, slow := range []func(){
					func() { f.Set(replySlowly, nil) }, // the script is not run any more
					func() { f.Set(nil, replySlowly) }, // it is run
				} {
					hold, _ := must(t, k.Open(by, "job", mortise.LockOptions{}), t.Context())
					slow()
					freed := make(chan struct{})
					time.AfterFunc(waitFor-early, func() { mustUnlock(t, hold); close(freed) })
					mine, _, err := k.Open(c, "job", mortise.LockOptions{Wait: waitFor}).Lock(t.Context())
					if err == nil {
						mustUnlock(t, mine)
					} else {
						wantLockedFor(t, fmt.Sprintf("freed %v before the limit", early), err)
					}
					<-freed
					f.Set(nil, nil)
					start := time.Now()
					next, _ := must(t, k.Open(other, "job", mortise.LockOptions{}), t.Context())
					if d := time.Since(start); d > 5*time.Second {
						t.Errorf("freed %v before the limit, it stayed locked for %v", early, d)
					}
					mustUnlock(t, next)
				}
			}
		}
		wantEmpty(t, s)
	})
}

// The limit ends while a MultiLock asks for its second lock, after it has waited for the first.
func TestLimitDuringTheAttemptForASecondLock(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				by := other
				if own {
					by = c
				}
				for early := slowly / 5; early <= 4*slowly; early += slowly * 2 / 5 {
					hold, _ := must(t, by.Lock("a"), t.Context())
					f.Set(replySlowly, nil)
					freed := make(chan struct{})
					time.AfterFunc(waitFor-early, func() { mustUnlock(t, hold); close(freed) })
					both := mortise.NewMultiLock(c.Lock("a"), c.FairLock("b")).With(mortise.LockOptions{Wait: waitFor})
					mine, _, err := both.Lock(t.Context())
					if err == nil {
						mustUnlock(t, mine)
					} else {
						wantLockedFor(t, fmt.Sprintf("freed %v before the limit", early), err)
					}
					<-freed
					f.Set(nil, nil)
					next, _ := must(t, mortise.NewMultiLock(other.Lock("a"), other.FairLock("b")), t.Context())
					mustUnlock(t, next)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// Redis falls silent for longer than a poll after it has refused: then that is what the wait
// was for.
func TestSilenceAfterARefusalInAMultiLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := must(t, other.Lock("a"), t.Context())
		time.AfterFunc(waitFor, func() {
			f.Set(hang, nil)
			mustUnlock(t, hold)
		})
		both := mortise.NewMultiLock(c.Lock("a"), c.FairLock("b")).With(mortise.LockOptions{Wait: 2 * time.Second})
		_, _, err := both.Lock(t.Context())
		if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLocked) {
			t.Errorf("%v, want only ErrUnreachable", err)
		}
		f.Set(nil, nil)
	})
}

// The release of the parts that a MultiLock has acquired, before another one refused, gets no answer:
// it goes on in the background when the limit of the wait is over.
func TestMultiLockWhoseReleaseOutlastsTheLimit(t *testing.T) {
	t.Parallel()
	for wait, when := range map[time.Duration]string{3 * time.Millisecond: "while it keeps them", 700 * time.Millisecond: "while it releases them"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				mustLock(t, other.Lock("a"), t.Context())
				sent := make(chan time.Time, 1) // the first release
				f.Set(func(ctx context.Context, script string) error {
					if strings.HasSuffix(script, "_release") {
						select {
						case sent <- time.Now():
						default:
						}
						return hang(ctx, script)
					}
					return nil
				}, nil)
				begin := time.Now()
				_, _, err := mortise.NewMultiLock(c.FencedLock("a"), c.Lock("b")).With(mortise.LockOptions{Wait: wait}).Lock(t.Context())
				if took := time.Since(begin); took != wait || !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("%v after %v, want ErrLocked after %v", err, took, wait)
				}
				synctest.Wait()
				select {
				case at := <-sent:
					if at.Sub(begin) > wait {
						t.Errorf("the first release was sent after %v, want it until the limit", at.Sub(begin))
					}
				default:
					t.Error("no release was sent")
				}
				f.Set(nil, nil)
			})
		})
	}
}

// The link is cut while a MultiLock acquires its second part: the release of the first one gets no answer
// either, and goes on in the background when the limit of the wait is over.
func TestMultiLockThatIsCutOffEndsAtItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const wait = 2 * time.Second
		c, f := open(t, s, nil)
		f.Set(func(ctx context.Context, script string) error {
			if script == "fenced_acquire" || strings.HasSuffix(script, "_release") {
				return hang(ctx, script)
			}
			return nil
		}, nil)
		begin := time.Now()
		_, _, err := mortise.NewMultiLock(c.FencedLock("a"), c.Lock("b")).With(mortise.LockOptions{Wait: wait}).Lock(t.Context())
		if took := time.Since(begin); took != wait || !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("%v after %v, want ErrUnreachable after %v", err, took, wait)
		}
		f.Set(nil, nil)
	})
}
