package script_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// mark has the lock job left to Redisson's threads for that long.
func (w *world) mark(t *testing.T, left time.Duration) {
	t.Helper()
	w.must(t, "ZADD", keyspace.Turns(job), fmt.Sprint(4_000_000_000_000_000+w.micros(t)+left.Microseconds()), "~")
}

// micros returns the server's time, in µs.
func (w *world) micros(t *testing.T) int64 {
	t.Helper()
	now := w.must(t, "TIME")
	seconds, err := strconv.ParseInt(now.At(0).Str(), 10, 64)
	micros, err2 := strconv.ParseInt(now.At(1).Str(), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return seconds*1_000_000 + micros
}

// A client that may not know that the lock is left to Redisson's threads is refused for as long, and no longer. Whoever
// knows is not, and neither is anybody if the clock was set back meanwhile.
func TestAcquireYieldsToRedisson(t *testing.T) {
	server := single(t)
	for name, acquire := range yielding {
		for _, test := range []yieldCase{
			{"left", 20 * time.Millisecond, true, true, []string{bobs, anns, "~"}},
			{"left, as it knows", 20 * time.Millisecond, false, false, []string{bobs, "~"}},
			{"over", -time.Microsecond, true, false, []string{bobs}},
			{"by a clock that was set back", time.Minute, true, false, []string{bobs}},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				everywhere(t, server, func(t *testing.T, w *world) { test.run(t, w, acquire) })
			})
		}
	}
}

// yieldAcquire acquires the lock job. A kind without turns returns a nil Standing.
type yieldAcquire func(ctx context.Context, w *world, yields bool) (ok bool, by script.Holder, at *script.Standing, err error)

// yielding are the scripts that leave a lock to Redisson's threads.
var yielding = map[string]yieldAcquire{
	"lock": func(ctx context.Context, w *world, yields bool) (bool, script.Holder, *script.Standing, error) {
		k := classic(w).Lock(job)
		g, err := k.Acquire(ctx, script.Attempt{ID: anns, Lease: lease, Entry: script.ToGive(anns), Yields: yields})
		return g.OK, g.By, &g.At, err
	},
	"fenced": func(ctx context.Context, w *world, yields bool) (bool, script.Holder, *script.Standing, error) {
		k := classic(w).FencedLock(job)
		g, err := k.Acquire(ctx, script.Attempt{ID: anns, Lease: lease, Entry: script.ToGive(anns), Yields: yields})
		return g.OK, g.By, &g.At, err
	},
	"multi": func(ctx context.Context, w *world, yields bool) (bool, script.Holder, *script.Standing, error) {
		ok, nth, by, err := script.MultiAcquire(ctx, w, []string{yieldOther, job}, anns, lease, yields)
		if !ok && err == nil && nth != 1 {
			err = fmt.Errorf("lock %d is in the way, want 1", nth)
		}
		return ok, by, nil, err
	},
}

// yieldOther is a lock that is acquired with job.
const yieldOther = "{" + job + "}2"

// classic returns a connection to a single server.
func classic(w *world) *script.Conn {
	c := script.NewConn(w)
	c.Learn(false, script.Classic)
	return c
}

// yieldCase is an acquisition of the free lock job, which is left to Redisson's threads for a while.
type yieldCase struct {
	name    string
	left    time.Duration
	yields  bool
	refused bool
	turns   []string // afterwards, of a kind with turns
}

func (test yieldCase) run(t *testing.T, w *world, acquire yieldAcquire) {
	w.queueUp(t, bobs)
	w.mark(t, test.left)
	ok, by, at, err := acquire(t.Context(), w, test.yields)
	for test.refused && w.real && ok { // the server was busy for as long
		w.must(t, "DEL", job, yieldOther)
		w.mark(t, test.left)
		ok, by, at, err = acquire(t.Context(), w, test.yields)
	}
	if err != nil || ok == test.refused {
		t.Fatalf("got %v, %v, want to be refused: %v", ok, err, test.refused)
	}
	have := "hash " + anns + "=1"
	if test.refused {
		if have = free; by.Owner != "" || by.Count != 0 || by.TTL <= 0 || by.TTL > test.left {
			t.Errorf("it is held by %+v, want nobody for %v at most", by, test.left)
		}
	}
	w.wantDump(t, job, have)
	if at == nil {
		w.wantDump(t, yieldOther, have)
		return
	}
	if test.refused && (at.Before != 1 || !at.New) {
		t.Errorf("its place is %+v, want the second", *at)
	}
	w.wantTurns(t, test.turns...)
}

// What is no client's is not listed.
func TestReadTurnsOfALockLeftToRedisson(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.queueUp(t, anns)
		w.mark(t, time.Minute)
		if got, err := classic(w).ReadTurns(t.Context(), job); err != nil || len(got.Clients) != 1 {
			t.Errorf("got %+v, %v, want one client", got, err)
		}
	})
}

// Who comes later has a later turn, also if the clock was set back meanwhile.
func TestTurnsAfterTheClockWasSetBack(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.hold(t, job, lease, me, "1")
		w.must(t, "ZADD", keyspace.Turns(job), fmt.Sprint(w.micros(t)+3_600_000_000), anns)
		w.mark(t, 20*time.Millisecond)
		for i, id := range []string{bobs, eves} {
			_, _, at, err := script.LockAcquire(t.Context(), w, job, id, lease, script.ToGive(id))
			if err != nil || at != (script.Standing{Before: int32(i + 1), New: true}) {
				t.Errorf("%s has the place %+v, %v, want %d before", id, at, err, i+1)
			}
		}
		w.wantTurns(t, anns, bobs, eves, "~")
	})
}

// Who lacks a right that only turns beside Redisson's threads need can acquire and release the lock all the same, and nothing stays
// for ever.
func TestTurnsBesideRedissonWithFewRights(t *testing.T) {
	server := single(t)
	for _, right := range []string{"time", "zscore", "zrem", "zadd", "zcard", "zrevrangebyscore", "pubsub|numsub"} {
		t.Run(right, func(t *testing.T) {
			onServer(t, "redis-server", server, func(t *testing.T, w *world) {
				d := w.login(t, "+@all", "~*", "&*", "-"+right)
				all, _ := w.listenAsRedisson(t, channel, false), w.listen(t, keyspace.TurnChannel(job, ann), false)
				for name, release := range granting {
					w.must(t, "DEL", job)
					w.hold(t, job, lease, me, "1")
					w.queueUp(t, anns)
					became, err := release(t.Context(), d, script.Classic, script.Turns{Command: "publish", Row: 3, Shared: true})
					if became == script.NotHeld || err != nil {
						t.Errorf("%s: release: %v, %v, want that it is released", name, became, err)
					}
					if len(all.received(t)) == 0 {
						t.Errorf("%s: Redisson's threads are not notified", name)
					}
				}
				w.must(t, "DEL", job)
				w.queueUp(t, bobs)
				w.mark(t, -time.Second)
				w.must(t, "PEXPIRE", keyspace.Turns(job), "5000")
				k := script.NewConn(d)
				k.Learn(false, script.Classic)
				plain := k.Lock(job)
				if g, err := plain.Acquire(t.Context(), script.Attempt{ID: anns, Lease: lease, Entry: script.ToGive(anns), Yields: true}); !g.OK || err != nil {
					t.Errorf("acquire: %+v, %v, want the lock", g, err)
				}
				w.must(t, "DEL", keyspace.Turns(job))
				if g, err := plain.Acquire(t.Context(), script.Attempt{ID: eves, Lease: lease, Entry: script.ToGive(eves)}); g.OK || err != nil && driver.ClassOf(err) != driver.Denied {
					t.Errorf("acquire of what is held: %+v, %v, want a refusal", g, err)
				}
				if ttl := w.must(t, "PTTL", keyspace.Turns(job)).Int(); ttl == -1 {
					t.Error("the turns stay for ever")
				}
			})
		})
	}
}
