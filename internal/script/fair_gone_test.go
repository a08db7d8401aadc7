package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// A subscribed head is waited for, and notified again every second.
func TestFairHeadThatListens(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.enqueue(java, step)
		sub := f.subscriber(java)
		if why := f.refused(me, script.FairQueue, java, 0); why.Again <= 0 || why.Again > time.Second || why.TTL != 0 {
			f.t.Errorf("refused with %+v, want to look again in a second", why)
		}
		sub.want(f.t, "0")
		f.toldBefore(java, time.Second)
		f.refused(me, script.FairAgain, java, 0)
		sub.want(f.t, "0")
		f.wantQueue(java, step, me, step+ahead)
	})
}

// A head that is not subscribed may be about to subscribe; a second later it is
// regarded as dead, whatever its deadline.
func TestFairHeadThatDied(t *testing.T) {
	inTime(t)
	for name, left := range map[string]time.Duration{"in time": step, "inflated": 24 * time.Hour, "late by a defect": -10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			fairly(t, func(f fair) {
				f.enqueue(java, max(left, step))
				f.refused(me, script.FairQueue, java, 0)
				f.silentFor(java, 900*time.Millisecond)
				if left >= step {
					f.refused(me, script.FairAgain, java, 0)
				} else { // its deadline is over
					f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(f.now()+left.Milliseconds()), java)
				}
				f.silentFor(java, time.Second)
				f.gets(me, script.FairAgain)
				f.wantQueue()
			})
		})
	}
}

// An old record of silence is of an earlier wait of the same thread.
func TestFairHeadThatWasSilentLongAgo(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.enqueue(java, step)
		f.refused(me, script.FairQueue, java, 0)
		f.must(f.t, "HSET", keyspace.FairSigns(job), "?"+java, fmt.Sprint(f.now()-9000, " ", f.now()-5100))
		f.refused(me, script.FairAgain, java, 0)
		f.wantQueue(java, step, me, step+ahead)
		// Unless it was found silent all the time.
		f.must(f.t, "HSET", keyspace.FairSigns(job), "?"+java, fmt.Sprint(f.now()-9000, " ", f.now()-1000))
		f.gets(me, script.FairAgain)
	})
}

// Many dead waiters delay the next no more than one does.
func TestFairManyThatDied(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		var dead []string
		for i := range 10 {
			dead = append(dead, fmt.Sprint(strings.TrimSuffix(java, "57"), i))
			f.enqueue(dead[i], step)
		}
		f.hold(f.t, job, lease, mine2, "1")
		f.refused(me, script.FairQueue, mine2, 1)
		if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, places(me)); err != nil {
			f.t.Fatal(err)
		}
		for _, waiter := range dead {
			f.silentFor(waiter, time.Second)
		}
		f.release(mine2, true)
		f.wantQueue(me, ahead+10*step)
		f.gets(me, script.FairAgain)
	})
}

// Waiters of Redisson's that are silent together, as when their network is cut, are not taken for as many deaths: each has a
// second of its own as head. If one of them listens, the others are dead.
func TestFairAllAreSilentAtOnce(t *testing.T) {
	inTime(t)
	for _, one := range []bool{false, true} {
		t.Run(fmt.Sprintf("one listens: %v", one), func(t *testing.T) {
			fairly(t, func(f fair) {
				var threads []string
				for i := range 5 {
					threads = append(threads, fmt.Sprint(strings.TrimSuffix(java, "57"), i))
					f.enqueue(threads[i], step)
				}
				if one {
					f.subscriber(threads[4])
				}
				f.hold(f.t, job, lease, mine2, "1")
				f.release(mine2, true)
				for _, thread := range threads[:4] {
					if signs := f.must(f.t, "HEXISTS", keyspace.FairSigns(job), "?"+thread).Int() == 1; signs != (one || thread == threads[0]) {
						f.t.Errorf("%s is suspected: %v", thread, signs)
					}
				}
			})
		})
	}
}

// Only the first of several waiters of one mortise client has to be subscribed; when
// it is silent, the others are not waited for.
func TestFairClientThatDied(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairQueue, java, 1)
		f.refused(mine2, script.FairQueue, java, 1)
		f.refused(other, script.FairQueue, java, 1)
		f.release(java, true) // no client received it
		f.refused(other, script.FairAgain, me, 0)
		f.silentFor(me, time.Second)
		f.gets(other, script.FairAgain)
		f.wantQueue()
	})
}

// A frozen client stays subscribed, but shows no sign of life.
func TestFairClientThatIsFrozen(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairQueue, java, 1)
		f.refused(other, script.FairQueue, java, 1)
		f.subscriber(me)
		f.release(java, true)
		f.refused(other, script.FairAgain, me, 0)
		f.askedBefore(me, 10*time.Second)
		f.must(f.t, "HSET", keyspace.FairSigns(job), client, fmt.Sprint(f.now()))
		f.gets(other, script.FairAgain)
		f.wantQueue()
	})
}

// Redisson would drop these at the next script of any client.
func TestFairDeadlinePassed(t *testing.T) {
	for name, test := range map[string]struct {
		listens    bool
		want, free []any
	}{
		"alive": {true, []any{java, step}, []any{java, 10 * time.Second}},
		"dead":  {false, []any{}, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			fairly(t, func(f fair) {
				if test.listens {
					f.subscriber(java)
				}
				f.hold(f.t, job, lease, mine2, "1")
				f.enqueue(java, -step)
				if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, nil); err != nil {
					f.t.Fatal(err)
				}
				f.wantQueue(test.want...)
				f.must(f.t, "ZADD", keyspace.FairDeadlines(job), "XX", fmt.Sprint(f.now()-step.Milliseconds()), java)
				f.release(mine2, true)
				f.wantQueue(test.free...)
			})
		})
	}
}

// A waiter of Redisson's whose deadline has passed, that is subscribed and yet does
// not take the lock when notified, must not keep it from all others.
func TestFairFrozenJavaWaiterIsDroppedAfterItsDeadline(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.enqueue(java, -step)
		sub := f.subscriber(java)
		f.refused(me, script.FairQueue, java, 0)
		sub.want(f.t, "0")
		f.toldBefore(java, time.Second)
		f.gets(me, script.FairAgain)
	})
}

func TestFairHeadWithoutDeadline(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.must(f.t, "RPUSH", keyspace.FairQueue(job), java)
		f.hold(f.t, job, lease, mine2, "1")
		if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, nil); err != nil {
			f.t.Fatal(err)
		}
		f.wantQueue(java, 10*time.Second) // Redisson waits for such a head forever
		f.must(f.t, "ZREM", keyspace.FairDeadlines(job), java)
		f.release(mine2, true)
		f.refused(me, script.FairQueue, java, 0)
		f.silentFor(java, time.Second)
		f.gets(me, script.FairAgain)
		f.wantQueue()
	})
}

// Without the right to ask for subscribers, or where the answer would be
// meaningless, Redisson's deadlines count, and our own clients' signs of life.
func TestFairSubscribersUnknown(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.Cluster = true
		f.enqueue(java, step)
		f.refused(me, script.FairQueue, java, 0)
		f.toldBefore(java, time.Second)
		f.refused(me, script.FairAgain, java, 0)
		f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(f.now()-1), java)
		f.toldBefore(java, time.Second)
		f.refused(me, script.FairAgain, java, 0)
		f.toldBefore(java, time.Second)
		f.gets(me, script.FairAgain)
	})
}
