package script_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// A thread that takes the lock leaves the queue and moves all deadlines forward, as Redisson does.
var threadTakes = driver.NewScript("thread_takes", `
redis.call('lpop', KEYS[2])
redis.call('zrem', KEYS[3], ARGV[1])
for _, waiter in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do redis.call('zincrby', KEYS[3], -ARGV[2], waiter) end
redis.call('del', KEYS[1])
redis.call('hset', KEYS[1], ARGV[1], 1)
return redis.call('pexpire', KEYS[1], 30000)`)

// A thread of Redisson's never has a deadline before the one that Redisson alone would have given it, however long the queue
// is: the limits of the scripts, of a hundred waiters, are in between. Nor does a waiter of mortise's lose its place.
func TestFairDeadlinesInLongQueues(t *testing.T) {
	for _, length := range []int{1, 99, 100, 101, 250, 1000} {
		t.Run(strconv.Itoa(length), func(t *testing.T) {
			fairly(t, func(f fair) { f.passOn(length) })
		})
	}
}

// mixed has so many waiters queue. It returns them, those of mortise's among them, and the deadlines of the others, in ms.
func (f fair) mixed(length int) (queue []string, ours []script.FairPlace, floor map[string]int64) {
	f.hold(f.t, job, lease, javaT, "1")
	floor = make(map[string]int64)
	for i := range length {
		if i%6 == 1 || i%6 == 3 || i%6 == 4 {
			thread := fmt.Sprint("8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:", 1000+i)
			left := lease
			if i > 0 {
				left = time.Duration(f.deadline(queue[i-1])-f.now()) * time.Millisecond
			}
			f.enqueue(thread, left+step)
			floor[thread] = f.deadline(thread)
			queue = append(queue, thread)
			continue
		}
		p := place(fmt.Sprint(client, ":", 1000+i))
		if ok, _ := f.acquire(f, p.Owner, script.FairQueue); ok {
			f.t.Fatal("the lock was free")
		}
		ours, queue = append(ours, p), append(queue, p.Owner)
	}
	return queue, ours, floor
}

// passOn has so many waiters queue, and then take the lock one after the other.
func (f fair) passOn(length int) {
	queue, ours, floor := f.mixed(length)
	for i, next := range queue[:min(length, 200)] {
		if len(ours) > 0 {
			if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, ours); err != nil {
				f.t.Fatal(err)
			}
		}
		at := f.deadlines()
		for thread, earliest := range floor {
			if at := at[thread]; at < earliest {
				f.t.Fatalf("after %d turns, %s has a deadline %d ms too early", i, thread, earliest-at)
			}
		}
		if first := f.must(f.t, "LINDEX", keyspace.FairQueue(job), "0").Str(); first != next {
			f.t.Fatalf("after %d turns, %s is the first, want %s", i, first, next)
		}
		if _, ok := floor[next]; !ok {
			f.must(f.t, "DEL", job)
			if ok, why := f.acquire(f, next, script.FairAgain); !ok {
				f.t.Fatalf("%s does not get the lock: %+v", next, why)
			}
			ours = ours[1:]
			continue
		}
		keys := []string{job, keyspace.FairQueue(job), keyspace.FairDeadlines(job)}
		if _, err := f.Eval(f.t.Context(), driver.Call{Script: threadTakes, Keys: keys, Args: []string{next, fmt.Sprint(step.Milliseconds())}}); err != nil {
			f.t.Fatal(err)
		}
		delete(floor, next)
		for thread := range floor {
			floor[thread] -= step.Milliseconds()
		}
	}
}

// A waiter of mortise's has its deadline after those of the threads before it, however many they are and however long the lock is
// held: a thread that queues behind it builds on that.
func TestFairDeadlineBehindManyThreads(t *testing.T) {
	for _, test := range []struct {
		threads int
		held    time.Duration
	}{{1, lease}, {1, 100 * 24 * time.Hour}, {99, time.Hour}, {100, time.Hour}, {101, time.Hour}, {300, time.Hour}} {
		t.Run(fmt.Sprint(test.threads, " ", test.held), func(t *testing.T) {
			fairly(t, func(f fair) {
				f.hold(f.t, job, test.held, javaT, "1")
				last := f.threads(test.threads, test.held)
				f.refused(me, script.FairQueue, javaT, 1)
				for i := range 3 {
					if got := f.deadline(me); got < last || got > last+ahead.Milliseconds() {
						f.t.Errorf("after %d heartbeats, its deadline is %d ms after that of the last thread, want 0 to %v", i, got-last, ahead)
					}
					f.tend(me)
				}
			})
		})
	}
}

// threads has so many threads queue, as Redisson does it while the lock is held for so long. It returns the last deadline, in ms.
func (f fair) threads(n int, held time.Duration) (last int64) {
	f.t.Helper()
	last = f.now() + held.Milliseconds()
	for i := range n {
		thread := fmt.Sprint("8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:", 1000+i)
		last += step.Milliseconds()
		f.must(f.t, "RPUSH", keyspace.FairQueue(job), thread)
		f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(last), thread)
	}
	return last
}

func (f fair) tend(owners ...string) {
	f.t.Helper()
	if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, places(owners...)); err != nil {
		f.t.Fatal(err)
	}
}

// Threads that come among the first hundred, behind waiters of mortise's that were put off meanwhile, are put off as far: else
// Redisson would drop them as soon as they are the first.
func TestFairThreadsCatchUpWithThoseBeforeThem(t *testing.T) {
	fairly(t, func(f fair) {
		f.gets(javaT, script.FairOnce)
		f.refused(me, script.FairQueue, javaT, 1)
		f.enqueue(java, -step/2)
		f.enqueue(javaN, step/2)
		f.tend(me)
		f.wantQueue(me, ahead, java, ahead+step, javaN, ahead+2*step)
		// They are in order, and stay where they are.
		f.must(f.t, "ZINCRBY", keyspace.FairDeadlines(job), fmt.Sprint(-step.Milliseconds()/2), java)
		f.tend(me)
		f.wantQueue(me, ahead, java, ahead+step/2, javaN, ahead+2*step)
	})
}

// A deadline within a year is built on, and a later one is not: it is none of Redisson's making.
func TestFairDeadlineOfAYear(t *testing.T) {
	for late, builds := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			fairly(t, func(f fair) {
				f.gets(javaT, script.FairOnce)
				f.enqueue(java, step)
				last := f.now() + (365*24*time.Hour + late).Milliseconds()
				f.must(f.t, "ZADD", keyspace.FairDeadlines(job), fmt.Sprint(last), java)
				f.refused(me, script.FairQueue, javaT, 1)
				for i := range 3 {
					if got := f.deadline(me); (got >= last) != builds || !builds && got > f.now()+(24*time.Hour).Milliseconds() {
						f.t.Errorf("after %d heartbeats, its deadline is %d ms after that of the thread, want it to build on that: %v", i, got-last, builds)
					}
					f.tend(me)
				}
			})
		})
	}
}

// Anything may stand where the deadlines are: what is added to one must not make Redis refuse the script, and no other waiter's
// deadline builds on one that is endless.
func TestFairTendBesideEndlessDeadlines(t *testing.T) {
	const second = java + "2"
	numbers := []string{"-inf", "inf", "-1.7e308", "1"}
	for i := range 64 {
		before, mine, behind := numbers[i/16], numbers[i/4%4], numbers[i%4]
		t.Run(fmt.Sprint(before, " ", mine, " ", behind), func(t *testing.T) {
			fairly(t, func(f fair) {
				f.gets(javaT, script.FairOnce)
				f.enqueue(java, step)
				f.enqueue(second, step)
				f.refused(me, script.FairAgain, javaT, 1)
				f.enqueue(javaN, step)
				f.subscriber(java)
				f.must(f.t, "ZADD", keyspace.FairDeadlines(job), before, java, mine, me, behind, javaN)
				if got, err := script.FairTend(f.t.Context(), f, f.Fair, client, places(me)); err != nil || len(got.Ask) > 0 {
					f.t.Errorf("tend: %+v, %v, want that all are in their places", got, err)
				}
				f.refused(other, script.FairQueue, javaT, 1)
				sane := []string{second, me, other}
				if behind == "1" {
					sane = append(sane, javaN)
				}
				for _, waiter := range sane {
					score := f.must(f.t, "ZSCORE", keyspace.FairDeadlines(job), waiter).Str()
					if at, err := strconv.ParseFloat(score, 64); err != nil || at < 1 || at > float64(f.now()+(24*time.Hour).Milliseconds()) {
						f.t.Errorf("%s has the deadline %s, want one within a day", waiter, score)
					}
				}
			})
		})
	}
}

// deadlines returns the deadlines of all waiters, in ms.
func (f fair) deadlines() map[string]int64 {
	f.t.Helper()
	at := make(map[string]int64)
	list := f.must(f.t, "ZRANGE", keyspace.FairDeadlines(job), "0", "-1", "WITHSCORES")
	for i := 0; i < list.Len(); i += 2 {
		at[list.At(i).Str()] = f.millis(list.At(i + 1).Str())
	}
	return at
}

func (f fair) deadline(waiter string) int64 {
	f.t.Helper()
	return f.millis(f.must(f.t, "ZSCORE", keyspace.FairDeadlines(job), waiter).Str())
}

func (f fair) millis(score string) int64 {
	f.t.Helper()
	ms, err := strconv.ParseFloat(score, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return int64(ms)
}
