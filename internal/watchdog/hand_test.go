package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// hand passes from's record on to a new lease called name.
func (b *bench) hand(from *watchdog.Lease, name string) *watchdog.Lease {
	b.t.Helper()
	to := b.lease(name)
	if !b.Hand(from, to, 0) {
		b.t.Errorf("%s could not be handed to %s", key(from), name)
	}
	return to
}

// A lease that was handed off is renewed and lost as if nothing had happened; the former holder's
// lease is left alone.
func TestHand(t *testing.T) {
	virtual(t, func(b *bench) {
		b.add("a:before", true)
		from := b.add("a", true)
		b.add("a:after", true)
		b.at(15 * time.Second)
		left := period + trust - 15*time.Second
		if b.Hand(from, b.lease("nobody"), left+1) {
			t.Errorf("a lease with %v of trust left was handed on, want more left", left)
		}
		to := b.hand(from, "a:heir")
		if got, want := b.Until(to), b.start.Add(period+trust); !got.Equal(want) {
			t.Errorf("trust ends at %v, want %v as before", got.Sub(b.start), want.Sub(b.start))
		}
		if b.Remove(from) || b.Confirm(from, time.Now(), time.Hour) {
			t.Error("the lease that was handed over is still watched")
		}
		b.SetRenew(from, false) // without effect or harm
		b.at(25 * time.Second)
		b.wantTimes("a", period, 2*period)
		if got := b.tries("a")[1].keys; len(got) != 3 {
			t.Errorf("then %v was renewed, want all three", got)
		}
		b.SetRenew(to, false)
		b.at(2 * time.Minute)
		b.wantKept("a", "a:before", "a:after")
		b.wantLost("a:heir", 2*period+trust, watchdog.LostExpired)
	})
}

// The outcome of a renewal in flight belongs to the new holder, however often the lease was
// handed off, and there is no second renewal at the same time.
func TestHandDuringAnAttempt(t *testing.T) {
	for state, want := range map[watchdog.State]struct {
		lost   bool
		reason watchdog.Reason
	}{
		watchdog.Renewed: {},
		watchdog.Failed:  {},
		watchdog.Gone:    {true, watchdog.LostGone},
		watchdog.Taken:   {true, watchdog.LostTaken},
	} {
		t.Run(fmt.Sprint(state), func(t *testing.T) {
			virtual(t, func(b *bench) {
				underway := 0
				b.serve(func(_ context.Context, l *watchdog.Lease) watchdog.Answer {
					if underway++; underway > 1 {
						t.Error("two renewals at a time")
					}
					time.Sleep(time.Second)
					underway--
					return watchdog.Answer{State: state, Err: errDown}
				})
				l := b.add("a", true)
				b.at(period + time.Millisecond)
				for i := range 100 {
					l = b.hand(l, fmt.Sprint("a:heir.", i))
					time.Sleep(time.Millisecond)
				}
				b.serve(renewed)
				b.at(period + time.Second)
				b.wantKept("a", "a:heir.0", "a:heir.98")
				if want.lost {
					b.wantLost("a:heir.99", period+time.Second, want.reason)
					b.at(time.Minute)
					b.wantTimes("a", period)
					return
				}
				b.wantKept("a:heir.99")
				until := b.start.Add(trust)
				if state == watchdog.Renewed {
					until = until.Add(period)
				}
				if got := b.Until(l); !got.Equal(until) {
					t.Errorf("trust ends at %v, want %v", got.Sub(b.start), until.Sub(b.start))
				}
				b.at(2 * period)
				if got := b.times("a"); len(got) != 2 {
					t.Errorf("renewals at %v, want one more", got)
				}
				b.at(time.Minute)
				b.wantKept("a", "a:heir.0", "a:heir.98", "a:heir.99")
			})
		})
	}
}

// A lease that was handed off while it was queued behind a slow attempt is renewed for the new
// holder; one that was removed then is not.
func TestHandInTheQueue(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(4*time.Second, watchdog.Renewed))
		b.add("a:first", true)
		b.at(2 * time.Second) // too late to join the batch of the first
		kept, removed := b.add("a:kept", true), b.add("a:removed", true)
		b.at(13 * time.Second)
		kept, removed = b.hand(kept, "a:kept heir"), b.hand(removed, "a:removed heir")
		b.Remove(removed)
		b.at(15 * time.Second)
		b.wantTimes("a", 10*time.Second, 14*time.Second)
		if got := b.tries("a")[1].keys; len(got) != 1 || got[0] != "a:kept heir" {
			t.Errorf("the attempt renewed %v, want only the lease that stayed", got)
		}
		b.at(18 * time.Second)
		if got, want := b.Until(kept), b.start.Add(14*time.Second+trust); !got.Equal(want) {
			t.Errorf("trust ends at %v, want %v", got.Sub(b.start), want.Sub(b.start))
		}
		b.at(time.Minute)
		b.wantKept("a:first", "a:kept", "a:removed", "a:kept heir", "a:removed heir")
	})
}

// If renewals fail, a lease that was handed off is lost when it would have been otherwise.
func TestHandOfAFailingLease(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(failed)
		from := b.add("a", true)
		b.at(20 * time.Second)
		before := len(b.tries("a"))
		b.hand(from, "a:heir")
		b.at(20*time.Second + 400*time.Millisecond)
		if n := len(b.tries("a")) - before; n > 2 {
			t.Errorf("%d attempts at once, want the pauses of a lease that fails for long", n)
		}
		b.at(time.Minute)
		b.wantKept("a")
		b.wantLost("a:heir", trust, watchdog.LostUnconfirmed)
		if err := b.lost("a:heir")[0].err; !errors.Is(err, errDown) {
			t.Errorf("the loss came with the error %v, want that of the last attempt", err)
		}
	})
}

// A lease that is not watched, or not trusted any more, cannot be handed off, and nothing
// changes.
func TestHandRefused(t *testing.T) {
	virtual(t, func(b *bench) {
		heir := b.lease("a:heir")
		refused := func(from *watchdog.Lease) {
			t.Helper()
			if b.Hand(from, heir, 0) {
				t.Errorf("%s was handed over", key(from))
			}
			if b.Remove(heir) {
				t.Error("the heir is watched")
			}
		}
		refused(b.lease("new"))
		removed := b.add("removed", true)
		b.Remove(removed)
		refused(removed)
		lost := b.add("lost", false)
		b.at(time.Minute)
		refused(lost)
		late := b.lease("late")
		b.Add(late, time.Now().Add(-trust), trust, true)
		refused(late) // before the watchdog's timer has fired
		synctest.Wait()
		b.wantLost("late", time.Minute, watchdog.LostUnconfirmed)
		handed := b.add("handed", true)
		kept := b.hand(handed, "kept")
		refused(handed)
		b.Close()
		refused(kept)
		b.wantKept("a:heir", "kept", "handed")
	})
}
