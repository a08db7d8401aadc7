package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The lease of most tests, its trust, and a third of the lease.
const (
	ttl    = 30 * time.Second
	trust  = 29 * time.Second
	period = 10 * time.Second
)

var errDown = errors.New("the server is down")

// attempt is one call of Renew.
type attempt struct {
	at   time.Duration // since the start of the test
	keys []string
}

// loss is one call of Lost.
type loss struct {
	at     time.Duration
	reason watchdog.Reason
	err    error
}

// bench is a watchdog in virtual time, and a record of what it did. The test says what the server
// behind it answers.
type bench struct {
	*watchdog.Watchdog
	t     *testing.T
	start time.Time

	mu       sync.Mutex // guards the fields below
	answer   func(ctx context.Context, l *watchdog.Lease) watchdog.Answer
	attempts map[string][]attempt // by shard
	losses   map[string][]loss    // by key

	receive func(key string) // called by the receiver of losses
}

// virtual runs f in a bubble, which fails the test if the watchdog leaves a goroutine behind.
func virtual(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, start: time.Now(), answer: renewed, receive: func(string) {},
			attempts: map[string][]attempt{}, losses: map[string][]loss{},
		}
		b.Watchdog = watchdog.New(watchdog.Config{Renew: b.renew, Shard: func(l *watchdog.Lease) string { return shard(key(l)) }, Lost: b.note})
		defer b.Close()
		f(b)
	})
}

// shard is the part of the key before the colon.
func shard(key string) string {
	s, _, _ := strings.Cut(key, ":")
	return s
}

func renewed(context.Context, *watchdog.Lease) watchdog.Answer {
	return watchdog.Answer{State: watchdog.Renewed}
}

func failed(context.Context, *watchdog.Lease) watchdog.Answer {
	return watchdog.Answer{State: watchdog.Failed, Err: errDown}
}

// hanging answers when ctx ends.
func hanging(ctx context.Context, _ *watchdog.Lease) watchdog.Answer {
	<-ctx.Done()
	return watchdog.Answer{State: watchdog.Failed, Err: context.Cause(ctx)}
}

// slow answers with then after d, or earlier if ctx ends.
func slow(d time.Duration, then watchdog.State) func(context.Context, *watchdog.Lease) watchdog.Answer {
	return func(ctx context.Context, _ *watchdog.Lease) watchdog.Answer {
		select {
		case <-time.After(d):
			return watchdog.Answer{State: then}
		case <-ctx.Done():
			return watchdog.Answer{State: watchdog.Failed, Err: context.Cause(ctx)}
		}
	}
}

func (b *bench) renew(ctx context.Context, leases []*watchdog.Lease) []watchdog.Answer {
	b.mu.Lock()
	answer := b.answer
	a := attempt{at: time.Since(b.start)}
	for _, l := range leases {
		a.keys = append(a.keys, key(l))
	}
	s := shard(key(leases[0]))
	b.attempts[s] = append(b.attempts[s], a)
	b.mu.Unlock()
	answers := make([]watchdog.Answer, len(leases))
	for i, l := range leases {
		if shard(key(l)) != s {
			b.t.Errorf("one attempt has leases of the shards %s and %s", s, shard(key(l)))
		}
		answers[i] = answer(ctx, l)
	}
	return answers
}

// serve changes how the server answers.
func (b *bench) serve(answer func(context.Context, *watchdog.Lease) watchdog.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// terms are those of most tests.
var terms = watchdog.Terms{TTL: ttl, Trust: trust}

// lease returns a lease on key.
func (b *bench) lease(key string) *watchdog.Lease {
	return &watchdog.Lease{Of: key, Terms: &terms}
}

// key is the key of a lease.
func key(l *watchdog.Lease) string { return l.Of.(string) }

// note records a loss.
func (b *bench) note(l *watchdog.Lease, reason watchdog.Reason, err error) {
	b.receive(key(l))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses[key(l)] = append(b.losses[key(l)], loss{time.Since(b.start), reason, err})
}

// add starts to watch a new lease on key as of now.
func (b *bench) add(key string, renew bool) *watchdog.Lease {
	l := b.lease(key)
	b.Add(l, time.Now(), trust, renew)
	return l
}

// at sleeps until d after the start of the test, and lets everything happen that is due by then.
func (b *bench) at(d time.Duration) {
	time.Sleep(time.Until(b.start.Add(d)))
	synctest.Wait()
}

// tries returns the attempts for a shard.
func (b *bench) tries(shard string) []attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.attempts[shard])
}

// lost returns the losses of key.
func (b *bench) lost(key string) []loss {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.losses[key])
}

// times returns when the shard's attempts began.
func (b *bench) times(shard string) []time.Duration {
	times := []time.Duration{}
	for _, a := range b.tries(shard) {
		times = append(times, a.at)
	}
	return times
}

func (b *bench) wantTimes(shard string, want ...time.Duration) {
	b.t.Helper()
	if got := b.times(shard); !slices.Equal(got, want) {
		b.t.Errorf("renewals of %s at %v, want %v", shard, got, want)
	}
}

// wantLost checks that key was lost once, at that time and for that reason.
func (b *bench) wantLost(key string, at time.Duration, reason watchdog.Reason) {
	b.t.Helper()
	got := b.lost(key)
	if len(got) != 1 || got[0].at != at || got[0].reason != reason {
		b.t.Errorf("%s was lost %v, want once, at %v, reason %d", key, got, at, reason)
	}
}

func (b *bench) wantKept(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		if got := b.lost(key); len(got) != 0 {
			b.t.Errorf("%s was lost: %v", key, got)
		}
	}
}

func TestRenewsEveryThird(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", true)
		b.at(35 * time.Second)
		b.wantTimes("a", 10*time.Second, 20*time.Second, 30*time.Second)
		if got, want := b.Until(l), b.start.Add(30*time.Second+trust); !got.Equal(want) {
			t.Errorf("trust ends at %v, want %v after the start of the last renewal", got.Sub(b.start), trust)
		}
		b.wantKept("a")
	})
}

// Trust counts from the start of the attempt, because Redis may have set the TTL at any moment
// since.
func TestTrustCountsFromTheStartOfTheAttempt(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(3*time.Second, watchdog.Renewed))
		l := b.lease("a")
		b.at(4 * time.Second)
		b.Add(l, b.start.Add(time.Second), trust, true) // the answer took three seconds
		if got, want := b.Until(l), b.start.Add(time.Second+trust); !got.Equal(want) {
			t.Errorf("after Add trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
		}
		b.at(13 * time.Second)
		if got, want := b.Until(l), b.start.Add(time.Second+trust); !got.Equal(want) {
			t.Errorf("before the answer trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
		}
		b.at(14 * time.Second)
		if got, want := b.Until(l), b.start.Add(11*time.Second+trust); !got.Equal(want) {
			t.Errorf("after the answer trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
		}
		b.at(25 * time.Second)
		b.wantTimes("a", 11*time.Second, 21*time.Second)
	})
}

// A wide margin leaves little trust, so renewals are more frequent.
func TestRenewsTwiceInAShortTrust(t *testing.T) {
	virtual(t, func(b *bench) {
		l := &watchdog.Lease{Of: "a", Terms: &watchdog.Terms{TTL: ttl, Trust: 4 * time.Second}}
		b.Add(l, time.Now(), l.Terms.Trust, true)
		b.at(7 * time.Second)
		b.wantTimes("a", 2*time.Second, 4*time.Second, 6*time.Second)
		b.wantKept("a")
	})
}

func TestRenewsThroughADay(t *testing.T) {
	virtual(t, func(b *bench) {
		b.add("a", true)
		b.add("b", true)
		b.at(24*time.Hour + time.Second)
		for _, key := range []string{"a", "b"} {
			if got, want := len(b.times(key)), 8640; got != want {
				t.Errorf("%d renewals of %s in 24 hours, want %d", got, key, want)
			}
		}
		b.wantKept("a", "b")
	})
}

// All leases of a shard that are due at once are renewed at once.
func TestRenewsInBatches(t *testing.T) {
	virtual(t, func(b *bench) {
		const each = 250
		for i := range each {
			b.add(fmt.Sprint("a:", i), true)
			b.add(fmt.Sprint("b:", i), true)
		}
		b.at(25 * time.Second)
		for _, shard := range []string{"a", "b"} {
			b.wantTimes(shard, 10*time.Second, 20*time.Second)
			for _, a := range b.tries(shard) {
				slices.Sort(a.keys)
				if n := len(slices.Compact(a.keys)); n != each {
					t.Errorf("an attempt for shard %s renewed %d leases, want %d", shard, n, each)
				}
			}
		}
	})
}

// While an attempt is in flight, newly due leases wait for the next one: a server gets one
// attempt at a time.
func TestOneAttemptAtATimePerShard(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(3*time.Second, watchdog.Renewed))
		for i := range 3 {
			b.at(time.Duration(i) * 1400 * time.Millisecond) // too far apart to share a batch
			b.add(fmt.Sprint("a:", i), true)
		}
		b.at(17 * time.Second)
		b.wantTimes("a", 10*time.Second, 13*time.Second)
		if got := b.tries("a")[1].keys; !slices.Equal(got, []string{"a:1", "a:2"}) {
			t.Errorf("the second attempt renewed %v, want the two leases that had become due", got)
		}
	})
}

func TestAnswersGoneAndTakenAreFinal(t *testing.T) {
	for state, reason := range map[watchdog.State]watchdog.Reason{
		watchdog.Gone: watchdog.LostGone, watchdog.Taken: watchdog.LostTaken,
	} {
		virtual(t, func(b *bench) {
			b.serve(func(_ context.Context, l *watchdog.Lease) watchdog.Answer {
				if key(l) == "a:lost" {
					return watchdog.Answer{State: state}
				}
				return watchdog.Answer{State: watchdog.Renewed}
			})
			lost := b.add("a:lost", true)
			b.add("a:kept", true)
			b.at(time.Minute + time.Second)
			b.wantLost("a:lost", period, reason)
			b.wantKept("a:kept")
			for _, a := range b.tries("a")[1:] {
				if !slices.Equal(a.keys, []string{"a:kept"}) {
					t.Errorf("after the loss %v was renewed", a.keys)
				}
			}
			if b.Remove(lost) || b.Confirm(lost, time.Now(), trust) {
				t.Error("the lost lease is still watched")
			}
		})
	}
}

func TestExpiresWhatIsNotRenewed(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", false)
		b.at(trust - 1)
		b.wantKept("a")
		if over, _, _ := b.Expire(l); over {
			t.Error("Expire reports the end of trust before it")
		}
		b.at(time.Minute)
		b.wantLost("a", trust, watchdog.LostExpired)
		b.wantTimes("a")
	})
}

// A lease may have ended before it is watched at all.
func TestAddTooLate(t *testing.T) {
	virtual(t, func(b *bench) {
		late := b.lease("a")
		fixed := b.lease("b")
		b.Add(late, time.Now().Add(-trust), trust, true)
		b.Add(fixed, time.Now().Add(-trust), trust, false)
		synctest.Wait()
		b.wantLost("a", 0, watchdog.LostUnconfirmed)
		b.wantLost("b", 0, watchdog.LostExpired)
		b.wantTimes("a")
	})
}
