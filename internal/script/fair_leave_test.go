package script_test

import (
	"fmt"
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// A waiter that gives up leaves at once. It has added nothing to the deadlines of the
// waiters behind it.
func TestFairGiveUp(t *testing.T) {
	fairly(t, func(f fair) {
		f.hold(f.t, job, lease, mine2, "1")
		f.enqueue(javaT, step)
		f.refused(me, script.FairQueue, mine2, 1)
		f.wantQueue(javaT, step, me, step+ahead)
		f.enqueue(java, 2*step+ahead)
		f.enqueue(javaN, 3*step+ahead)
		sub := f.subscriber(javaT)
		f.release(me, false)
		f.wantQueue(javaT, step, java, 2*step+ahead, javaN, 3*step+ahead)
		f.release(me, false)
		f.wantQueue(javaT, step, java, 2*step+ahead, javaN, 3*step+ahead)
		sub.want(f.t) // the lock is not free
		f.wantDump(f.t, job, "hash "+mine2+"=1")
	})
}

// The lock may be free for a head that gives up: the next one is notified.
func TestFairGiveUpAtTheHead(t *testing.T) {
	fairly(t, func(f fair) {
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairQueue, java, 1)
		f.refused(other, script.FairQueue, java, 1)
		f.must(f.t, "DEL", job)
		sub := f.subscriber(other)
		f.release(me, false)
		sub.want(f.t, "0")
		f.gets(other, script.FairAgain)
	})
}

// leaves has owners leave together, in either copy of the call.
func (f fair) leaves(done int, owners ...string) {
	f.t.Helper()
	got, _, err := script.FairLeave(f.t.Context(), f, f.Fair, owners)
	if got != done || err != nil {
		f.t.Errorf("FairLeave of %v: %d, %v, want %d", owners, got, err, done)
	}
	if _, _, err = script.FairLeave(f.t.Context(), f, f.Fair, owners[:done]); err != nil {
		f.t.Error(err)
	}
}

// Many leave together, from any positions, and the holder among them releases.
func TestFairLeaveTogether(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.hold(f.t, job, lease, mine2, "1")
		var owners []string
		for i := range 6 {
			owners = append(owners, fmt.Sprint(client, ":", 100+i))
			if f.acquire(f, owners[i], script.FairQueue); i == 2 {
				f.enqueue(javaT, step)
			}
		}
		f.leaves(5, owners[4], owners[0], me, owners[1], owners[3]) // me does not wait
		f.wantQueue(owners[2], ahead, javaT, step, owners[5], step+ahead)
		sub := f.subscriber(javaT)
		f.leaves(3, owners[2], mine2, me)
		f.wantQueue(javaT, step, owners[5], step+ahead)
		f.wantDump(f.t, job, "nothing")
		sub.want(f.t, "0")
	})
}

// In a long queue, owners that leave together are searched for in slices.
func TestFairLeaveInSlices(t *testing.T) {
	fairly(t, func(f fair) {
		const many, each = 20_000, 3 // after which 50,000 have been searched
		f.hold(f.t, job, lease, mine2, "1")
		f.must(f.t, "EVAL", "for n = 1, 20000 do redis.call('rpush', KEYS[1], 'java:' .. n) redis.call('zadd', KEYS[2], 9e12, 'java:' .. n) end return 1",
			"2", keyspace.FairQueue(job), keyspace.FairDeadlines(job))
		var owners []string
		for i := range 2 * each {
			owners = append(owners, fmt.Sprint(client, ":", 100+i))
			f.acquire(f, owners[i], script.FairQueue)
		}
		for left := owners; len(left) > 0; left = left[each:] {
			f.leaves(each, left...)
			if n := f.must(f.t, "LLEN", keyspace.FairQueue(job)).Int(); n != int64(many+len(left)-each) {
				f.t.Errorf("%d are in the queue, want %d", n, many+len(left)-each)
			}
		}
	})
}
