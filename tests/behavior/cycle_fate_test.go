package behavior

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// crossed makes two waits that wait for each other, with options of each.
func (k *knot) crossed(a, b *mortise.Client, oa, ob mortise.LockOptions) (first, second <-chan fate, one, two func() error) {
	k.t.Helper()
	lock := grabs["Lock"]
	ctxOne, one := k.must(lock, k.t.Context(), a, "one")
	ctxTwo, two := k.must(lock, k.t.Context(), b, "two")
	first = k.wait(lock, ctxOne, a, "two", oa)
	tick()
	second = k.wait(lock, ctxTwo, b, "one", ob)
	return first, second, one, two
}

func TestCycleIsToldOnceAndTheWaitsGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k, a, b := pair(t, s)
		first, second, _, two := k.crossed(a, b, mortise.LockOptions{}, mortise.LockOptions{})
		time.Sleep(5 * time.Minute)
		select {
		case f := <-first:
			t.Errorf("the first wait ended with %v", f.err)
		case f := <-second:
			t.Errorf("the second wait ended with %v", f.err)
		default:
		}
		for i, o := range k.told {
			var cycle *mortise.DeadlockError
			e := o.of(mortise.EventDeadlock)
			if len(e) != 1 || !errors.As(e[0].Err, &cycle) {
				t.Fatalf("host-%d was told %+v, want one cycle", i, e)
			}
			if w := o.of(mortise.EventWaiting); e[0].Call != w[0].Call || e[0].Lock != w[0].Lock || e[0].Kind != "lock" || e[0].Context == nil {
				t.Errorf("the event is %+v, want that of the wait %+v", e[0], w[0])
			}
			if own := cycle.Waits[0]; own.Client.Host != fmt.Sprint("host-", i) || own.Lock != e[0].Lock {
				t.Errorf("the cycle begins with %+v, want the wait of host-%d", own, i)
			}
		}
		if err := two(); err != nil {
			t.Fatal(err)
		}
		k.wantThrough("the first", first)
	})
}

func TestOnlyTheOneThatIsToFailFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k, a, b := pair(t, s)
		first, second, one, _ := k.crossed(a, b, fails, mortise.LockOptions{})
		k.wantFailure("the older", first, "one", "two")
		if err := one(); err != nil {
			t.Fatal(err)
		}
		k.wantThrough("the younger", second)
	})
}

func TestOneOfTwoThatBeginAtTheSameInstantFails(t *testing.T) {
	for _, inside := range []bool{false, true} {
		for i := range 5 { // the ids of the clients decide
			bubbleNamed(t, fmt.Sprintf("inside=%t %d", inside, i), func(t *testing.T, s *memredis.Server) {
				k, a, b := pair(t, s)
				if inside {
					b = a
				}
				lock := grabs["Lock"]
				one, freeOne := k.must(lock, t.Context(), a, "one")
				two, freeTwo := k.must(lock, t.Context(), b, "two")
				first, second := k.wait(lock, one, a, "two", fails), k.wait(lock, two, b, "one", fails)
				var f fate
				other, release := second, freeOne
				select {
				case f = <-first:
				case f = <-second:
					other, release = first, freeTwo
				case <-time.After(3 * time.Second):
					t.Fatal("no wait has failed")
				}
				if !errors.Is(f.err, mortise.ErrDeadlock) {
					t.Fatalf("one ended with %v", f.err)
				}
				synctest.Wait()
				time.Sleep(10 * time.Second) // its hold lasts on, and the other waits on
				if len(other) != 0 {
					t.Fatalf("the other ended, too: %v", (<-other).err)
				}
				if err := release(); err != nil {
					t.Fatal(err)
				}
				k.wantThrough("the other", other)
			})
		}
	}
}

// A wait that is to fail is granted the lock, or handed it, at that moment: it has it or it has not.
func TestWaitThatIsToFailIsGrantedTheLock(t *testing.T) {
	for _, kind := range []string{"Lock", "FairLock", "FencedLock", "writer", "MultiLock"} {
		for _, inside := range []bool{false, true} {
			for _, after := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
				bubbleNamed(t, fmt.Sprintf("%s inside=%t after %v", kind, inside, after), func(t *testing.T, s *memredis.Server) {
					k, a, b := pair(t, s)
					if inside {
						b = a
					}
					slow := func(context.Context, string) error { time.Sleep(500 * time.Microsecond); return nil }
					for _, f := range k.faults {
						f.Set(slow, slow)
					}
					one, freeOne := k.must(grabs[kind], t.Context(), a, "one")
					two, freeTwo := k.must(grabs["Lock"], t.Context(), b, "two")
					first := k.wait(grabs["Lock"], one, a, "two", mortise.LockOptions{})
					tick()
					second := k.wait(grabs[kind], two, b, "one", fails)
					for len(k.cycles()) == 0 && len(second) == 0 {
						time.Sleep(50 * time.Microsecond)
					}
					time.Sleep(after)
					if err := freeOne(); err != nil { // although its context still waits
						t.Fatal(err)
					}
					if f := k.soon("the one that is to fail", second, time.Second); f.err == nil {
						if err := f.release(); err != nil {
							t.Error(err)
						}
					} else if !errors.Is(f.err, mortise.ErrDeadlock) {
						t.Errorf("the wait ended with %v", f.err)
					}
					if err := freeTwo(); err != nil {
						t.Fatal(err)
					}
					k.soon("the other", first, 2*time.Second)
					start := time.Now()
					k.wantThrough("a third", k.wait(grabs[kind], t.Context(), k.join(nil), "one", mortise.LockOptions{Wait: 2 * time.Second}))
					if d := time.Since(start); d > 1100*time.Millisecond {
						t.Errorf("the lock was had after %v", d)
					}
				})
			}
		}
	}
}

// Nothing is told while clients cannot be seen; then the cycle is found.
func TestCycleIsFoundOnceTheRecordsAreThere(t *testing.T) {
	for name, fault := range map[string]func(k *knot, f *faults){
		"replies of writes are lost":    func(_ *knot, f *faults) { f.Set(nil, loseReplies("client_record", 3)) },
		"replies of reads are lost":     func(_ *knot, f *faults) { f.Set(nil, loseReplies("client_read", 5)) },
		"replies of the index are lost": func(_ *knot, f *faults) { f.Set(nil, loseReplies("client_index", 2)) },
		"Redis is silent": func(_ *knot, f *faults) {
			f.Set(func(ctx context.Context, name string) error { // the driver gives up after a second
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return hang(ctx, name)
			}, nil)
			time.AfterFunc(3*time.Second, func() { f.Set(nil, nil) })
		},
		"Redis says nothing of clients": func(_ *knot, f *faults) {
			f.Set(tellsNothing, nil)
			time.AfterFunc(3*time.Second, func() { f.Set(nil, nil) })
		},
		"the records are gone": func(k *knot, f *faults) {
			if f != k.faults[0] {
				return
			}
			go func() {
				for range 5 {
					select {
					case <-time.After(300 * time.Millisecond):
					case <-k.t.Context().Done():
						return
					}
					for _, key := range keysOf(k.t, k.s, "mortise:*client*") {
						do(k.t, k.s, "DEL", key)
					}
				}
			}()
		},
	} {
		for _, at := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
			bubbleNamed(t, fmt.Sprintf("%s after %v", name, at), func(t *testing.T, s *memredis.Server) {
				k, a, b := pair(t, s)
				first, second, _, two := k.crossed(a, b, fails, fails)
				time.Sleep(at)
				fault(k, k.faults[0])
				fault(k, k.faults[1])
				if f := k.soon("the younger", second, 20*time.Second); !errors.Is(f.err, mortise.ErrDeadlock) {
					t.Fatalf("the younger ended with %v", f.err)
				}
				if err := two(); err != nil {
					t.Fatal(err)
				}
				k.wantThrough("the older", first)
			})
		}
	}
}

// keysOf returns the keys that match a pattern.
func keysOf(t *testing.T, s *memredis.Server, pattern string) (keys []string) {
	v := do(t, s, "KEYS", pattern)
	for i := range v.Len() {
		keys = append(keys, v.At(i).Str())
	}
	return keys
}

func TestCycleWithAPrefix(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k := &knot{t: t, s: s}
		oa, ob := seenAs("host-0"), seenAs("host-1")
		oa.Prefix, ob.Prefix = "staging:", "staging:"
		_, second, _, _ := k.crossed(k.join(oa), k.join(ob), fails, fails)
		if e := k.cycleOf("the younger", second, "one", "two"); e.Waits[0].Lock != "one" {
			t.Errorf("it waits for %q, want the name without the prefix", e.Waits[0].Lock)
		}
	})
}

// The lease goes from one goroutine to another of the same client, with its id.
func TestCycleWithALeaseThatWasHandedOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k, a, b := pair(t, s)
		lock := grabs["Lock"]
		_, release := k.must(lock, t.Context(), a, "one")
		two, freeTwo := k.must(lock, t.Context(), b, "two")
		hold := make(chan context.Context)
		go func() {
			ctx, _, err := lock(t.Context(), a, "one", fails)
			if err != nil {
				t.Error(err)
			}
			hold <- ctx
		}()
		synctest.Wait()
		second := k.wait(lock, two, b, "one", fails)
		time.Sleep(time.Second)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		first := k.wait(lock, <-hold, a, "two", fails)
		k.wantFailure("the younger", first, "one", "two")
		if e := k.told[0].of(mortise.EventAcquired); len(e) < 2 || e[1].How != mortise.HowHandedOff {
			t.Errorf("the lock was not handed off: %+v", e)
		}
		_, _ = freeTwo, second
	})
}

// The lock goes to another client while the wait lasts: it waits for that one.
func TestCycleWithALaterHolder(t *testing.T) {
	for _, kind := range []string{"Lock", "FairLock"} {
		bubbleNamed(t, kind, func(t *testing.T, s *memredis.Server) {
			k, a, b := pair(t, s)
			c := k.join(nil)
			_, release := k.must(grabs[kind], t.Context(), c, "one")
			got := make(chan context.Context, 1)
			go func() {
				ctx, _, err := grabs[kind](t.Context(), a, "one", mortise.LockOptions{})
				if err != nil {
					t.Error(err)
				}
				got <- ctx
			}()
			synctest.Wait()
			tick()
			two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
			first := k.wait(grabs[kind], two, b, "one", fails)
			time.Sleep(1234 * time.Millisecond)
			if err := release(); err != nil {
				t.Fatal(err)
			}
			one := <-got
			time.Sleep(100 * time.Millisecond)
			k.wantFailure("the younger", k.wait(grabs["Lock"], one, a, "two", fails), "one", "two")
			if len(first) != 0 {
				t.Errorf("the older ended, too: %v", (<-first).err)
			}
		})
	}
}

// A goroutine that waited under the lease hands it off to one that does not wait for anything.
func TestNoCycleOnceALeaseWasHandedOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k, a, b := pair(t, s)
		lock := grabs["Lock"]
		one, release := k.must(lock, t.Context(), a, "one")
		two, _ := k.must(lock, t.Context(), b, "two")
		next := k.wait(lock, t.Context(), a, "one", fails)
		k.wait(lock, two, b, "one", fails)
		ctx, cancel := context.WithTimeout(one, 650*time.Millisecond)
		defer cancel()
		k.soon("the first", k.wait(lock, ctx, a, "two", fails), time.Second)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if f := k.soon("the next", next, time.Second); f.err != nil {
			t.Fatal(f.err)
		}
		k.wantNone()
	})
}

// A wait may be in one cycle after the other: what it was told of the first says nothing about the
// next one. A writer waits for two readers, each of which waits for what the writer has. The ids of the
// readers decide which cycle it sees first.
func TestWaitIsInOneCycleAfterTheOther(t *testing.T) {
	for i := range 16 {
		bubbleNamed(t, fmt.Sprint(i), func(t *testing.T, s *memredis.Server) {
			younger := i % 2
			k, a, b := pair(t, s)
			w := k.join(nil)
			var contexts [2]context.Context
			var release [2]func() error
			readers := []*mortise.Client{a, b}
			for i, c := range readers {
				contexts[i], release[i] = k.must(grabs["reader"], t.Context(), c, "doc")
			}
			one, _ := k.must(grabs["Lock"], t.Context(), w, "one")
			other, _ := k.must(grabs["Lock"], one, w, "other")
			names := []string{"one", "other"}
			var ends [2]<-chan fate
			ends[1-younger] = k.wait(grabs["Lock"], contexts[1-younger], readers[1-younger], names[1-younger], fails)
			tick()
			writer := k.wait(grabs["writer"], other, w, "doc", fails)
			tick()
			ends[younger] = k.wait(grabs["Lock"], contexts[younger], readers[younger], names[younger], fails)
			for range 2 {
				select {
				case f := <-ends[younger]:
					if !errors.Is(f.err, mortise.ErrDeadlock) {
						t.Fatalf("the younger reader ended with %v", f.err)
					}
					if err := release[younger](); err != nil {
						t.Fatal(err)
					}
				case f := <-writer:
					if !errors.Is(f.err, mortise.ErrDeadlock) {
						t.Fatalf("the writer ended with %v", f.err)
					}
					return
				case <-time.After(10 * time.Second):
					t.Fatal("all wait for each other")
				}
			}
			t.Error("the writer has not failed, although it is younger than a reader that waits for it")
		})
	}
}

func TestMultiLockFailsInACycle(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		k, a, b := pair(t, s)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.wait(grabs["Lock"], two, b, "one", mortise.LockOptions{})
		m := locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return mortise.NewMultiLock(c.Lock(name), c.Lock("three")).With(o)
		})
		k.wantFailure("the MultiLock", k.wait(m, one, a, "two", fails), "one", "two")
	})
}
