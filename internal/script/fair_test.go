package script_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// fair drives a fair lock in tests that know the expected reply.
type fair struct {
	*world
	t *testing.T
	script.Fair
}

const (
	client = "0b5f3d1c-7c0e-8d2e-9a57-1f0e6a0c9b11"
	other  = "5a0d3c62-93a4-8c39-8d0e-5c7d8d6a1b22:7" // of another mortise client
	step   = 5 * time.Minute
	ahead  = 10 * time.Second
)

// fairly runs f as two tests, like everywhere.
func fairly(t *testing.T, f func(f fair)) {
	t.Helper()
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		f(fair{w, t, script.Fair{FairKeys: script.NewFairKeys(job)}})
	})
}

// place is a place whose nonce contains its owner, so that tests can expect it.
func place(owner string) script.FairPlace {
	return script.FairPlace{Owner: owner, Nonce: nonce(owner), Ahead: ahead}
}

func nonce(owner string) string { return "NONCE-" + owner }

func places(owners ...string) (all []script.FairPlace) {
	for _, owner := range owners {
		all = append(all, place(owner))
	}
	return all
}

func (f fair) acquire(d driver.Driver, owner string, mode script.FairMode) (bool, script.FairRefusal) {
	f.t.Helper()
	ok, why, err := script.FairAcquire(f.t.Context(), d, f.Fair, place(owner), lease, mode)
	if err != nil {
		f.t.Fatalf("%s: %v", owner, err)
	}
	return ok, why
}

// gets has owner ask for the lock and get it, in either copy of the call, also
// if the reply to the first one is lost.
func (f fair) gets(owner string, mode script.FairMode) {
	f.t.Helper()
	if _, _, err := script.FairAcquire(f.t.Context(), lossy{f}, f.Fair, place(owner), lease, mode); driver.ClassOf(err) != driver.Unknown {
		f.t.Errorf("with a lost reply: %v, want class unknown", err)
	}
	for range 2 {
		if ok, why := f.acquire(f, owner, mode); !ok {
			f.t.Fatalf("%s does not get the lock: %+v", owner, why)
		}
		f.wantDump(f.t, job, "hash "+owner+"=1")
		f.wantTTL(f.t, job, lease)
	}
}

// refused has owner ask for the lock and be refused, twice and more.
func (f fair) refused(owner string, mode script.FairMode, by string, count int) (why script.FairRefusal) {
	f.t.Helper()
	if _, _, err := script.FairAcquire(f.t.Context(), lossy{f}, f.Fair, place(owner), lease, mode); driver.ClassOf(err) != driver.Unknown {
		f.t.Errorf("with a lost reply: %v, want class unknown", err)
	}
	for range 2 {
		ok, got := f.acquire(f, owner, mode)
		if ok || got.Owner != by || got.Count != count {
			f.t.Fatalf("%s: %v, %+v, want to be refused for %s with count %d", owner, ok, got, by, count)
		}
		why = got
	}
	return why
}

func (f fair) release(owner string, want bool) {
	f.t.Helper()
	if ok, _, err := script.FairRelease(f.t.Context(), f, f.Fair, owner); ok != want || err != nil {
		f.t.Errorf("release of %s: %v, %v, want %v", owner, ok, err, want)
	}
}

func (f fair) now() int64 {
	v := f.must(f.t, "TIME")
	seconds, err := strconv.ParseInt(v.At(0).Str(), 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	micros, err := strconv.ParseInt(v.At(1).Str(), 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return seconds*1000 + micros/1000
}

// enqueue puts a waiter into the queue as Redisson would, with the given time
// until its deadline.
func (f fair) enqueue(waiter string, left time.Duration) {
	f.t.Helper()
	f.must(f.t, "RPUSH", keyspace.FairQueue(job), waiter)
	f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(f.now()+left.Milliseconds()), waiter)
}

// silentFor backdates the record of a waiter's silence.
func (f fair) silentFor(waiter string, d time.Duration) {
	f.t.Helper()
	if f.must(f.t, "HEXISTS", keyspace.FairSigns(job), "?"+waiter).Int() != 1 {
		f.t.Fatalf("there is no note that %s is silent", waiter)
	}
	f.must(f.t, "HSET", keyspace.FairSigns(job), "?"+waiter, fmt.Sprint(f.now()-d.Milliseconds(), " ", f.now()))
}

// askedBefore backdates when a waiter last asked.
func (f fair) askedBefore(waiter string, d time.Duration) {
	f.t.Helper()
	f.must(f.t, "HSET", keyspace.FairOurs(job), waiter, fmt.Sprint(f.now()-d.Milliseconds(), " ", nonce(waiter)))
}

// toldBefore backdates the record that a waiter was notified.
func (f fair) toldBefore(waiter string, d time.Duration) {
	f.t.Helper()
	told := f.must(f.t, "HGET", keyspace.FairSigns(job), "told").Str()
	since, rest, _ := strings.Cut(told, " ")
	i := strings.IndexAny(rest, " !")
	if i < 0 || rest[i+1:] != waiter {
		f.t.Fatalf("the note says %q, want that %s was told", told, waiter)
	}
	f.must(f.t, "HSET", keyspace.FairSigns(job), "told", since+" "+fmt.Sprint(f.now()-d.Milliseconds())+rest[i:])
}

// wantQueue checks the waiters in the queue: pairs of waiter and time until the
// deadline, -1 for none.
func (f fair) wantQueue(want ...any) {
	f.t.Helper()
	var waiters []string
	for i := 0; i < len(want); i += 2 {
		waiters = append(waiters, want[i].(string))
	}
	got, err := script.FairInspect(f.t.Context(), f, job, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	var have []string
	for i, w := range got {
		have = append(have, w.Owner)
		if i >= len(waiters) || w.Owner != waiters[i] {
			continue
		}
		// A wall clock may be set back a little between two looks at it.
		slack := time.Duration(0)
		if f.real {
			slack = 50 * time.Millisecond
		}
		if left := want[2*i+1].(time.Duration); !f.near(w.Left-slack, left) {
			f.t.Errorf("%s has %v left, want %v", w.Owner, w.Left, left)
		}
	}
	if !slices.Equal(have, waiters) {
		f.t.Fatalf("the queue is %q, want %q", have, waiters)
	}
	if n := f.must(f.t, "ZCARD", keyspace.FairDeadlines(job)).Int(); n > int64(len(waiters)) {
		f.t.Errorf("there are %d deadlines, want %d at most, as many as waiters", n, len(waiters))
	}
}

func (f fair) subscriber(waiter string) *subscriber {
	f.t.Helper()
	return f.listen(f.t, keyspace.FairChannel(job, waiter), false)
}

func TestFairAcquireFree(t *testing.T) {
	for _, mode := range []script.FairMode{script.FairOnce, script.FairQueue, script.FairAgain} {
		fairly(t, func(f fair) {
			f.gets(me, mode)
			f.wantQueue()
			if n := f.must(f.t, "DBSIZE").Int(); n != 1 {
				f.t.Errorf("an uncontended lock has %d keys, want 1", n)
			}
		})
	}
}

// Our waiters add nothing to the deadlines; each waiter of Redisson's before them adds
// one fairLockWaitTimeout.
func TestFairQueueBesideRedissonsNumbers(t *testing.T) {
	fairly(t, func(f fair) {
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairOnce, java, 1)
		f.wantQueue()
		if why := f.refused(me, script.FairQueue, java, 1); why.Queued != 1 || !f.near(why.TTL, lease) || why.Again != 0 {
			f.t.Errorf("refused with %+v, want 1 in the queue and the TTL of the lock", why)
		}
		f.refused(mine2, script.FairAgain, java, 1)
		f.refused(other, script.FairQueue, java, 1)
		f.refused(me, script.FairAgain, java, 1) // it keeps its place
		f.wantQueue(me, ahead, mine2, ahead, other, ahead)
		f.enqueue(javaN, 2*step)
		f.refused(eves, script.FairQueue, java, 1)
		f.wantQueue(me, ahead, mine2, ahead, other, ahead, javaN, 2*step, eves, 2*step+ahead)
		f.wantDump(f.t, job, "hash "+java+"=1")
		f.wantTTL(f.t, keyspace.FairOurs(job), time.Minute)
		for _, key := range []string{keyspace.FairQueue(job), keyspace.FairDeadlines(job)} {
			f.wantTTL(f.t, key, 24*time.Hour)
		}
	})
}

// The room for the threads before a waiter is what their clients wait for each.
func TestFairStep(t *testing.T) {
	fairly(t, func(f fair) {
		f.Step = "60000"
		f.gets(javaN, script.FairOnce)
		f.enqueue(java, time.Minute)
		f.refused(me, script.FairQueue, javaN, 1)
		f.wantQueue(java, time.Minute, me, time.Minute+ahead)
	})
}

func TestFairAcquireAtTheHead(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.enqueue(me, ahead)
		f.enqueue(java, ahead+step)
		f.enqueue(javaN, ahead+2*step)
		f.gets(me, script.FairAgain)
		f.wantQueue(java, ahead+step, javaN, ahead+2*step) // our waiter has added nothing
		sub := f.subscriber(java)
		f.release(me, true)
		sub.want(f.t, "0")
		f.release(me, false)
		sub.want(f.t) // it was notified a moment ago
	})
}

func TestFairTend(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		tend := func(ask ...string) time.Duration {
			f.t.Helper()
			got, err := script.FairTend(f.t.Context(), f, f.Fair, client, places(me, mine2))
			if err != nil || !slices.Equal(got.Ask, ask) {
				f.t.Fatalf("tend: %+v, %v, want %q", got, err, ask)
			}
			return got.Again
		}
		f.gets(java, script.FairOnce)
		tend(me, mine2) // they are not in the queue
		f.wantQueue()
		f.refused(me, script.FairAgain, java, 1)
		f.refused(mine2, script.FairAgain, java, 1)
		tend()
		// Redisson's decrements must not end their time.
		for _, owner := range []string{me, mine2} {
			f.must(f.t, "ZINCRBY", keyspace.FairDeadlines(job), "-900000", owner)
		}
		tend()
		f.wantQueue(me, ahead, mine2, ahead)
		// Redisson dropped one.
		f.must(f.t, "LREM", keyspace.FairQueue(job), "1", me)
		f.must(f.t, "ZREM", keyspace.FairDeadlines(job), me)
		tend(me)
		// The queue is gone, the deadlines are not.
		f.must(f.t, "DEL", keyspace.FairQueue(job))
		tend(me, mine2)
		f.refused(me, script.FairAgain, java, 1)
		f.wantQueue(me, ahead)
		f.refused(mine2, script.FairAgain, java, 1)
		// The lock is free without a message.
		f.must(f.t, "DEL", job)
		tend(me)
		f.gets(me, script.FairAgain)
		tend(me) // it holds the lock, and is in no queue
		f.wantDump(f.t, job, "hash "+me+"=1")
		// Tending alone finds a dead head.
		f.must(f.t, "DEL", keyspace.FairQueue(job), keyspace.FairDeadlines(job), job)
		f.enqueue(java, step)
		f.enqueue(me, 2*step)
		f.enqueue(mine2, 2*step)
		if again := tend(); again <= 0 || again > time.Second {
			f.t.Errorf("look again in %v, want within a second", again)
		}
		f.silentFor(java, time.Second)
		tend(me)
		tend(me)
		f.wantQueue(me, ahead, mine2, ahead)
	})
}

// The deadline of a waiter that has a limit is never before that limit, however close it is: a thread of
// Redisson's, and a lock that shares the queue, drop a head whose deadline has passed.
func TestFairTendNearTheEndOfAWait(t *testing.T) {
	fairly(t, func(f fair) {
		const left = 2 * time.Second
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairAgain, java, 1)
		f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(f.now()+left.Milliseconds()/4), me)
		p := place(me)
		p.Ahead = left
		if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, []script.FairPlace{p}); err != nil {
			f.t.Fatal(err)
		}
		f.wantQueue(me, left)
	})
}

func TestFairForeignData(t *testing.T) {
	for _, r := range foreign(refused("kind")) {
		t.Run(r.name, func(t *testing.T) {
			fairly(t, func(f fair) {
				r.setup(f.t, f.world)
				for _, mode := range []script.FairMode{script.FairOnce, script.FairQueue} {
					ok, why, err := script.FairAcquire(f.t.Context(), f, f.Fair, place(me), lease, mode)
					f.wantAnswer(f.t, answered(ok, why.Holder, err), r.want)
				}
				r.check(f.t, f.world)
				f.wantQueue()
			})
		})
	}
}

// If other keys of the lock hold something else, that is an error, and the lock is
// not taken.
func TestFairForeignQueue(t *testing.T) {
	fairly(t, func(f fair) {
		f.must(f.t, "SET", keyspace.FairQueue(job), "x")
		_, _, err := script.FairAcquire(f.t.Context(), f, f.Fair, place(me), lease, script.FairQueue)
		if driver.ClassOf(err) != driver.WrongType {
			f.t.Errorf("got %v, want class wrong type", err)
		}
		f.wantDump(f.t, job, "nothing")
	})
}

var fairCalls = map[string]func(ctx context.Context, d driver.Driver) error{
	"FairAcquire": func(ctx context.Context, d driver.Driver) error {
		ok, why, err := script.FairAcquire(ctx, d, script.Fair{FairKeys: script.NewFairKeys(job)}, place(me), lease, script.FairQueue)
		return unless(ok || why != (script.FairRefusal{}), err)
	},
	"FairRelease": func(ctx context.Context, d driver.Driver) error {
		ok, again, err := script.FairRelease(ctx, d, script.Fair{FairKeys: script.NewFairKeys(job)}, me)
		return unless(ok || again != 0, err)
	},
	"FairTend": func(ctx context.Context, d driver.Driver) error {
		news, err := script.FairTend(ctx, d, script.Fair{FairKeys: script.NewFairKeys(job)}, client, places(me))
		return unless(news.Ask != nil || news.Again != 0 || news.Holder.Owner != "", err)
	},
	"FairInspect": func(ctx context.Context, d driver.Driver) error {
		queue, err := script.FairInspect(ctx, d, job, 10)
		return unless(queue != nil, err)
	},
}

func init() {
	for name, call := range fairCalls {
		everyCall[name] = call
	}
}
