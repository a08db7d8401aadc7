package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

func TestRemovedLeasesAreLeftAlone(t *testing.T) {
	virtual(t, func(b *bench) {
		renewed, fixed := b.add("a:renewed", true), b.add("a:fixed", false)
		b.add("b", true)
		b.at(15 * time.Second)
		if !b.Remove(renewed) || !b.Remove(fixed) {
			t.Error("Remove says that the leases were not watched")
		}
		if b.Remove(renewed) || b.Confirm(renewed, time.Now(), trust) {
			t.Error("the lease is still watched")
		}
		b.SetRenew(renewed, false) // without effect or harm
		b.SetRenew(renewed, true)
		b.at(2 * time.Minute)
		b.wantTimes("a", period)
		b.wantKept("a:renewed", "a:fixed", "b")
		if over, _, _ := b.Expire(renewed); !over {
			t.Error("Expire says that the trust in a removed lease goes on")
		}
		b.wantKept("a:renewed") // and not reported as lost
	})
}

// A lease that is removed, or not to be renewed any more, while it is queued behind a slow
// attempt must not be renewed afterwards: nothing would release its key.
func TestQueuedLeasesMayLeave(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(4*time.Second, watchdog.Renewed))
		b.add("a:first", true)
		b.at(2 * time.Second) // too late to join the batch of the first
		removed, stopped, kept := b.add("a:removed", true), b.add("a:stopped", true), b.add("a:kept", true)
		b.at(13 * time.Second) // they are due, but the first is in flight
		b.Remove(removed)
		b.SetRenew(stopped, false)
		b.at(15 * time.Second)
		b.wantTimes("a", 10*time.Second, 14*time.Second)
		if got := b.tries("a")[1].keys; !slices.Equal(got, []string{"a:kept"}) {
			t.Errorf("the attempt renewed %v, want only the lease that stayed", got)
		}
		b.SetRenew(stopped, true) // it is overdue by now
		b.at(19 * time.Second)
		if got := b.tries("a")[2]; got.at != 18*time.Second || !slices.Equal(got.keys, []string{"a:stopped"}) {
			t.Errorf("then %v was renewed at %v, want the lease that came back, at 18s", got.keys, got.at)
		}
		b.at(time.Minute)
		b.wantKept("a:first", "a:removed", "a:stopped", "a:kept")
		b.Remove(kept)
	})
}

// An answer about a lease that was removed while the attempt ran is ignored.
func TestRemoveDuringAnAttempt(t *testing.T) {
	for _, state := range []watchdog.State{watchdog.Renewed, watchdog.Gone, watchdog.Taken, watchdog.Failed} {
		t.Run(fmt.Sprint(state), func(t *testing.T) {
			virtual(t, func(b *bench) {
				b.serve(slow(time.Second, state))
				l := b.add("a", true)
				b.at(period + time.Millisecond)
				if !b.Remove(l) {
					t.Error("Remove says that the lease was not watched")
				}
				b.at(time.Minute)
				b.wantKept("a")
				b.wantTimes("a", period)
			})
		})
	}
}

func TestSetRenew(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", true)
		b.at(5 * time.Second)
		b.SetRenew(l, false)
		b.SetRenew(l, false)
		b.at(25 * time.Second)
		b.wantTimes("a")
		b.SetRenew(l, true) // long due
		b.at(26 * time.Second)
		b.wantTimes("a", 25*time.Second)
		b.at(36 * time.Second)
		b.wantTimes("a", 25*time.Second, 35*time.Second)
		b.SetRenew(l, false)
		b.at(2 * time.Minute)
		b.wantTimes("a", 25*time.Second, 35*time.Second)
		b.wantLost("a", 35*time.Second+trust, watchdog.LostExpired)
	})
}

// SetRenew turns renewal off while an attempt is in flight: the attempt may still confirm the
// lease, but none follows.
func TestSetRenewDuringAnAttempt(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(time.Second, watchdog.Renewed))
		l := b.add("a", true)
		b.at(period + time.Millisecond)
		b.SetRenew(l, false)
		b.at(2 * time.Minute)
		b.wantTimes("a", period)
		b.wantLost("a", period+trust, watchdog.LostExpired)
	})
}

func TestConfirm(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", false)
		b.at(10 * time.Second)
		want := b.start.Add(trust)
		for _, shorter := range []time.Duration{0, time.Second, trust - 10*time.Second} {
			if !b.Confirm(l, time.Now(), shorter) || !b.Until(l).Equal(want) {
				t.Errorf("a confirmation for %v moved the end of trust to %v", shorter, b.Until(l).Sub(b.start))
			}
		}
		if !b.Confirm(l, b.start.Add(8*time.Second), trust) || !b.Until(l).Equal(want.Add(8*time.Second)) {
			t.Errorf("trust ends at %v, want it to last %v from the start of the attempt", b.Until(l).Sub(b.start), trust)
		}
		b.at(trust + 8*time.Second - 1)
		b.wantKept("a")
		b.at(time.Minute)
		b.wantLost("a", trust+8*time.Second, watchdog.LostExpired)
		if b.Confirm(l, time.Now(), trust) {
			t.Error("a lost lease was confirmed")
		}
		b.at(2 * time.Minute)
		b.wantLost("a", trust+8*time.Second, watchdog.LostExpired)
	})
}

// A re-entry can confirm a lease whose renewals fail.
func TestConfirmKeepsAFailingLeaseAlive(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(failed)
		l := b.add("a", true)
		b.at(28 * time.Second)
		b.Confirm(l, time.Now(), trust)
		b.at(28*time.Second + trust - 1)
		b.wantKept("a")
		b.at(2 * time.Minute)
		b.wantLost("a", 28*time.Second+trust, watchdog.LostUnconfirmed)
	})
}

// A longer confirmation is not shortened by later renewals.
func TestRenewalDoesNotShortenALongConfirmation(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", true)
		b.Confirm(l, time.Now(), time.Hour)
		b.at(25 * time.Second)
		b.wantTimes("a", 10*time.Second, 20*time.Second)
		if got, want := b.Until(l), b.start.Add(time.Hour); !got.Equal(want) {
			t.Errorf("trust ends at %v, want %v", got.Sub(b.start), time.Hour)
		}
	})
}

// A process that was frozen asks before the watchdog's timer has fired.
func TestExpire(t *testing.T) {
	virtual(t, func(b *bench) {
		renewed, fixed := b.lease("a"), b.lease("b")
		b.Add(renewed, time.Now().Add(-time.Hour), trust, true)
		b.Add(fixed, time.Now().Add(-time.Hour), trust, false)
		for range 2 {
			if over, why, _ := b.Expire(renewed); !over || why != watchdog.LostUnconfirmed {
				t.Errorf("Expire of a renewed lease says %v, %v, want that its trust is over", over, why)
			}
			if over, why, _ := b.Expire(fixed); !over || why != watchdog.LostExpired {
				t.Errorf("Expire of a fixed lease says %v, %v, want that its time is over", over, why)
			}
		}
		synctest.Wait() // the watchdog's own goroutine may be about to report it
		b.wantLost("a", 0, watchdog.LostUnconfirmed)
		b.wantLost("b", 0, watchdog.LostExpired)
		b.at(time.Minute)
		b.wantLost("a", 0, watchdog.LostUnconfirmed)
		b.wantLost("b", 0, watchdog.LostExpired)
		b.wantTimes("a")
	})
}

func TestCloseDuringAHangingAttempt(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(hanging)
		leases := []*watchdog.Lease{b.add("a:1", true), b.add("a:2", true), b.add("b", true), b.add("c", false)}
		b.at(11 * time.Second)
		b.Close()
		if d := time.Since(b.start); d != 11*time.Second {
			t.Errorf("Close returned at %v, want at once", d)
		}
		b.at(time.Hour)
		b.wantKept("a:1", "a:2", "b", "c")
		b.wantTimes("a", period)
		b.Close() // a second call does no harm
		for _, l := range leases {
			if b.Remove(l) || b.Confirm(l, time.Now(), trust) {
				t.Errorf("after Close %s is still watched", key(l))
			}
			b.SetRenew(l, true)
		}
	})
}

// When Close has returned, nothing of the watchdog runs any more.
func TestCloseWaitsForTheAttempt(t *testing.T) {
	virtual(t, func(b *bench) {
		returned := false
		b.serve(func(ctx context.Context, _ *watchdog.Lease) watchdog.Answer {
			<-ctx.Done()
			time.Sleep(time.Second) // slow to notice
			returned = true
			return watchdog.Answer{State: watchdog.Failed, Err: errDown}
		})
		b.add("a", true)
		b.at(11 * time.Second)
		b.Close()
		if !returned {
			t.Error("Close returned before the attempt that was under way")
		}
		b.wantKept("a")
	})
}

func TestAddAfterClose(t *testing.T) {
	virtual(t, func(b *bench) {
		b.Close()
		l := b.add("a", true)
		if got, want := b.Until(l), b.start.Add(trust); !got.Equal(want) {
			t.Errorf("trust ends at %v, want %v", got.Sub(b.start), trust)
		}
		b.at(time.Hour)
		b.wantKept("a")
		b.wantTimes("a")
	})
}

func TestUnusedWatchdogHasNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	w := watchdog.New(watchdog.Config{})
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("a new watchdog started %d goroutines, want none before the first lease", got-before)
	}
	w.Close()
}

// A hundred thousand leases cost one goroutine for the scheduler and one for each shard that is
// being renewed. All of them are renewed in time, in few attempts, and spread over the period,
// whether they were acquired all at once or one after another.
func TestHundredThousandLeases(t *testing.T) {
	const shards, each, instants, periods = 4, 25_000, 100, 4
	for _, over := range []time.Duration{0, period} {
		t.Run(over.String(), func(t *testing.T) {
			virtual(t, func(b *bench) {
				before := runtime.NumGoroutine()
				most := 0
				all := make([]*watchdog.Lease, 0, shards*each)
				for i := range instants {
					b.at(time.Duration(i) * over / instants)
					for j := range shards * each / instants {
						all = append(all, b.add(fmt.Sprint(j%shards, ":", i, ".", j/shards), true))
					}
				}
				for now := over; now < periods*period; now += period / 4 {
					b.at(now)
					most = max(most, runtime.NumGoroutine()-before)
					for i := 0; i < len(all); i += 51 { // a sample of all shards and instants
						if rest := time.Until(b.Until(all[i])); rest < trust-period {
							t.Fatalf("%s is trusted for %v more, want %v at least", key(all[i]), rest, trust-period)
						}
					}
				}
				if len(b.losses) != 0 {
					t.Errorf("%d leases were lost", len(b.losses))
				}
				if most > 1+shards {
					t.Errorf("%d leases have %d goroutines, want %d at most", len(all), most, 1+shards)
				}
				begin := over + period // until then some are renewed early, to be spread
				for s := range shards {
					b.wantEven(fmt.Sprint(s), each, begin, periods*period)
				}
			})
		})
	}
}

// wantEven demands that the leases of a shard were renewed in few requests, spread over the
// period, between two moments.
func (b *bench) wantEven(shard string, leases int, begin, end time.Duration) {
	b.t.Helper()
	const batch = 100
	requests, tenths := 0, make(map[time.Duration]int)
	for _, a := range b.tries(shard) {
		if a.at >= begin {
			requests += (len(a.keys) + batch - 1) / batch
			tenths[a.at/(period/10)] += len(a.keys)
		}
	}
	if most := int((end - begin) / period * time.Duration(leases) / batch * 11 / 10); requests > most {
		b.t.Errorf("shard %s took %d requests for %d leases each, want %d at most", shard, requests, batch, most)
	}
	for at, n := range tenths {
		if n > 2*leases/10 {
			b.t.Errorf("shard %s renewed %d leases in the second from %v, want about %d", shard, n, at*period/10, leases/10)
		}
	}
}

// Leases that came to be renewed all at once, because the server did not answer for a while,
// are spread again.
func TestRecoveredLeasesAreSpread(t *testing.T) {
	virtual(t, func(b *bench) {
		const leases = 20_000
		for i := range leases {
			b.add(fmt.Sprint("a:", i), true)
		}
		b.at(2 * period)
		b.serve(failed)
		b.at(2*period + trust/2)
		b.serve(renewed)
		back := 2*period + trust/2 + period
		b.at(back)
		before := len(b.tries("a"))
		b.at(back + 2*period)
		seconds := make(map[time.Duration]int)
		for _, a := range b.tries("a")[before:] {
			seconds[a.at/time.Second] += len(a.keys)
		}
		for at, n := range seconds {
			if n > 2*leases/10 {
				t.Errorf("%d leases were renewed in second %d, want about %d", n, at, leases/10)
			}
		}
		if len(b.losses) != 0 {
			t.Errorf("%d leases were lost", len(b.losses))
		}
	})
}

// Every method at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(slow(100*time.Millisecond, watchdog.Renewed))
		done := make(chan struct{})
		const users = 8
		for u := range users {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range 50 {
					l := b.add(fmt.Sprint(u%3, ":", u, ".", i), i%3 != 0)
					time.Sleep(time.Duration(i*u) * 10 * time.Millisecond)
					b.Confirm(l, time.Now(), trust)
					b.SetRenew(l, i%2 == 0)
					_, _, _ = b.Expire(l)
					b.Until(l)
					if i%5 != 0 {
						b.Remove(l)
					}
				}
			}()
		}
		for range users {
			<-done
		}
		b.at(time.Hour)
		for u := range users {
			for i := range 50 {
				key := fmt.Sprint(u%3, ":", u, ".", i)
				lost := len(b.lost(key)) == 1
				if want := i%5 == 0 && i%2 != 0; lost != want {
					t.Errorf("%s was lost %d times, want lost: %v", key, len(b.lost(key)), want)
				}
			}
		}
	})
}
