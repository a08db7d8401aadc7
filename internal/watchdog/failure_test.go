package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// While nothing is confirmed, trust ends on time, whatever the server does.
func TestLosesTrustOnTime(t *testing.T) {
	for name, answer := range map[string]func(context.Context, *watchdog.Lease) watchdog.Answer{
		"failing": failed,
		"hanging": hanging,
		"slow":    slow(4*time.Second, watchdog.Failed),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(b *bench) {
				b.serve(answer)
				b.add("a", true)
				b.at(trust - 1)
				b.wantKept("a")
				b.at(2 * trust)
				b.wantLost("a", trust, watchdog.LostUnconfirmed)
				tries := b.times("a")
				if len(tries) < 4 {
					t.Errorf("%d attempts in the trust that was left, want several", len(tries))
				}
				if last := tries[len(tries)-1]; last >= trust {
					t.Errorf("an attempt began at %v, after the end of trust", last)
				}
				if name == "failing" && !errors.Is(b.lost("a")[0].err, errDown) {
					t.Errorf("the loss came with the error %v, want that of the last attempt", b.lost("a")[0].err)
				}
			})
		})
	}
}

// A Renew that ignores its context must not delay the loss of trust, nor other shards.
func TestLosesTrustOnTimeBehindADeafAttempt(t *testing.T) {
	virtual(t, func(b *bench) {
		free := make(chan struct{})
		b.serve(func(_ context.Context, l *watchdog.Lease) watchdog.Answer {
			if key(l) == "sick:1" {
				<-free
			}
			return watchdog.Answer{State: watchdog.Renewed}
		})
		sick := b.add("sick:1", true)
		b.at(2 * time.Second) // too late to join the batch of the first
		b.add("sick:2", true)
		b.add("well:1", true)
		b.at(2 * time.Minute)
		b.wantLost("sick:1", trust, watchdog.LostUnconfirmed)
		b.wantLost("sick:2", 2*time.Second+trust, watchdog.LostUnconfirmed)
		b.wantKept("well:1")
		b.wantTimes("sick", period)
		if n := len(b.times("well")); n != 11 {
			t.Errorf("%d renewals in the healthy shard, want 11", n)
		}
		// The late answer must not bring anything back.
		close(free)
		synctest.Wait()
		confirmed := b.Confirm(sick, time.Now(), trust)
		if over, _, _ := b.Expire(sick); !over || confirmed {
			t.Error("a late answer brought the lost lease back")
		}
		b.at(5 * time.Minute)
		b.wantLost("sick:1", trust, watchdog.LostUnconfirmed)
		b.wantTimes("sick", period) // neither of the two is asked about again
	})
}

// A hanging attempt leaves time for several others.
func TestRecoversFromAHangingAttempt(t *testing.T) {
	for hangs := 1; hangs <= 3; hangs++ {
		t.Run(fmt.Sprint(hangs), func(t *testing.T) {
			virtual(t, func(b *bench) {
				left := hangs
				b.serve(func(ctx context.Context, l *watchdog.Lease) watchdog.Answer {
					if left == 0 {
						return renewed(ctx, l)
					}
					left--
					return hanging(ctx, l)
				})
				l := b.add("a", true)
				b.at(trust)
				b.wantKept("a")
				tries := b.times("a")
				if len(tries) < hangs+1 {
					t.Fatalf("attempts at %v, want one more than the %d that hang", tries, hangs)
				}
				if got, want := b.Until(l), b.start.Add(tries[hangs]+trust); got.Before(want) {
					t.Errorf("trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
				}
			})
		})
	}
}

// The time for one attempt is bounded by the remaining trust, and by some seconds.
func TestAttemptLimit(t *testing.T) {
	for _, test := range []struct{ ttl, want time.Duration }{
		{30 * time.Second, 5 * time.Second},
		{time.Hour, 5 * time.Second},
		{3 * time.Second, time.Second},                 // half of the two that are left
		{time.Second, 333 * time.Millisecond},          // half of two thirds
		{90 * time.Millisecond, 50 * time.Millisecond}, // the least that makes sense
	} {
		t.Run(test.ttl.String(), func(t *testing.T) {
			virtual(t, func(b *bench) {
				var limit time.Duration
				b.serve(func(ctx context.Context, l *watchdog.Lease) watchdog.Answer {
					if deadline, ok := ctx.Deadline(); ok && limit == 0 {
						limit = time.Until(deadline)
					}
					return renewed(ctx, l)
				})
				l := &watchdog.Lease{Of: "a", Terms: &watchdog.Terms{TTL: test.ttl, Trust: test.ttl}}
				b.Add(l, time.Now(), test.ttl, true)
				b.at(test.ttl / 2)
				if limit.Truncate(time.Millisecond) != test.want {
					t.Errorf("the attempt may take %v, want %v", limit, test.want)
				}
			})
		})
	}
}

// Failures are retried soon, then less often, and a success ends that.
func TestBacksOffAndRecovers(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(failed)
		l := b.add("a", true)
		b.at(20 * time.Second)
		tries := b.times("a")
		for i := 1; i < len(tries); i++ {
			pause := tries[i] - tries[i-1]
			most := min(time.Second, 25*time.Millisecond<<i)
			if pause > most || pause < most/2 {
				t.Errorf("the pause after failure %d is %v, want %v to %v", i, pause, most/2, most)
			}
		}
		if n := len(tries); n < 10 || n > 40 {
			t.Errorf("%d attempts in 10 seconds of failure, want a few dozen at most", n)
		}
		b.serve(renewed)
		b.at(21 * time.Second)
		recovered := b.times("a")[len(tries)]
		if got, want := b.Until(l), b.start.Add(recovered+trust); !got.Equal(want) {
			t.Errorf("after the recovery trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
		}
		b.at(recovered + 3*period + time.Second)
		b.wantKept("a")
		all := b.times("a")
		if got := all[len(tries)+1:]; len(got) != 3 || got[0] != recovered+period {
			t.Errorf("after the recovery at %v the renewals are at %v, want every %v", recovered, got, period)
		}
		// The next failure is retried with short pauses again.
		b.serve(failed)
		b.at(recovered + 4*period + time.Second)
		again := b.times("a")[len(all):]
		if pause := again[1] - again[0]; pause > 50*time.Millisecond {
			t.Errorf("the first pause in the next trouble is %v, want 50ms at most", pause)
		}
	})
}

// The answer to an attempt that began while the lease was trusted may come
// after trust has ended.
func TestAnswerAfterTheLossChangesNothing(t *testing.T) {
	for _, state := range []watchdog.State{watchdog.Renewed, watchdog.Gone, watchdog.Taken, watchdog.Failed} {
		t.Run(fmt.Sprint(state), func(t *testing.T) {
			virtual(t, func(b *bench) {
				b.serve(func(context.Context, *watchdog.Lease) watchdog.Answer {
					time.Sleep(40 * time.Second) // deaf to its context
					return watchdog.Answer{State: state, Err: errDown}
				})
				l := b.add("a", true)
				b.at(3 * time.Minute)
				b.wantLost("a", trust, watchdog.LostUnconfirmed)
				b.wantTimes("a", period)
				if got, want := b.Until(l), b.start.Add(trust); !got.Equal(want) {
					t.Errorf("trust ended at %v, and is said to end at %v now", trust, got.Sub(b.start))
				}
			})
		})
	}
}

// A slow receiver of one loss must not delay the next one.
func TestOneLossDoesNotDelayTheNext(t *testing.T) {
	virtual(t, func(b *bench) {
		b.receive = func(key string) {
			if key == "a" {
				time.Sleep(100 * time.Millisecond) // ten thousand contexts to cancel, say
			}
		}
		b.add("a", false)
		b.at(time.Second)
		b.add("b", false)
		b.at(time.Minute)
		b.wantLost("b", time.Second+trust, watchdog.LostExpired)
	})
}

// Whoever loses a lease that was queued behind slow renewals learns that, and no error of one that has been answered since.
func TestSlowServerBlamesNoErrorOfBefore(t *testing.T) {
	virtual(t, func(b *bench) {
		free := make(chan struct{})
		calls := 0
		b.serve(func(ctx context.Context, l *watchdog.Lease) watchdog.Answer {
			switch calls++; calls {
			case 1:
				return hanging(ctx, l)
			case 2:
				return slow(4*time.Second, watchdog.Renewed)(ctx, l)
			default:
				<-free
				return watchdog.Answer{State: watchdog.Renewed}
			}
		})
		b.add("one:a", true)
		b.at(6 * time.Second)
		b.add("one:b", true) // due while the second renewal of a takes its time
		b.at(10*time.Second + time.Millisecond)
		b.add("one:c", true) // due while that of b does
		b.at(40 * time.Second)
		b.mu.Lock()
		lost := b.losses["one:c"]
		b.mu.Unlock()
		if len(lost) != 1 || lost[0].err == nil || !strings.Contains(lost[0].err.Error(), "for those before it") {
			t.Errorf("lost %v, want that it was queued for too long", lost)
		}
		close(free)
	})
}
