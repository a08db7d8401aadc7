package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// directly runs f as fairly does, but mortise's waiters are notified by the channel
// of their client; and on a real server with sharded messages, as on a cluster.
func directly(t *testing.T, f func(f fair, listen func(client string) *subscriber)) {
	t.Helper()
	server := single(t)
	run := func(t *testing.T, w *world, k script.Fair) {
		k.FairKeys = script.NewFairKeys(job)
		f(fair{w, t, k}, func(client string) *subscriber {
			t.Helper()
			return w.listen(t, keyspace.FairTurnChannel(job, client), k.Turns == "spublish")
		})
	}
	everywhere(t, server, func(t *testing.T, w *world) { run(t, w, script.Fair{Turns: "publish"}) })
	if slices.Contains(publishers(t), "spublish") && (proof || !isTimely(t)) {
		onServer(t, "sharded", server, func(t *testing.T, w *world) {
			run(t, w, script.Fair{Publish: script.Sharded, Cluster: true, Turns: "spublish"})
		})
	}
}

// waits has owner queue.
func (f fair) waits(owner string, tell bool) (mixed bool) {
	f.t.Helper()
	p := place(owner)
	if tell {
		p.Nonce = ""
	}
	ok, why, err := script.FairAcquire(f.t.Context(), f, f.Fair, p, lease, script.FairQueue)
	if ok || err != nil {
		f.t.Fatalf("%s: %v, %v, want to be refused", owner, ok, err)
	}
	return why.Mixed
}

// wantGiven checks that the lock was granted to owner, which is no longer in the
// queue.
func (f fair) wantGiven(owner string) {
	f.t.Helper()
	f.wantDump(f.t, job, "hash "+owner+"=1")
	f.wantTTL(f.t, job, script.GivenLease)
	if n := f.must(f.t, "HEXISTS", keyspace.FairOurs(job), owner).Int(); n != 0 {
		f.t.Errorf("%s has the lock, and is among the waiters", owner)
	}
}

func TestFairReleaseGivesTheLockToTheHead(t *testing.T) {
	directly(t, func(f fair, listen func(string) *subscriber) {
		first, second := listen(ann), listen(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantGiven(anns)
		first.want(f.t, anns+" "+nonce(anns))
		second.want(f.t)
		f.release(me, false) // as if its reply was lost
		f.wantGiven(anns)
		// It asks, and has the lock for a whole lease.
		f.gets(anns, script.FairAgain)
		f.release(anns, true)
		f.wantGiven(bobs)
		second.want(f.t, bobs+" "+nonce(bobs))
		f.wantQueue()
		f.release(bobs, true) // it no longer wanted it
		f.wantDump(f.t, job, "nothing")
		first.want(f.t)
		second.want(f.t)
	})
}

// A waiter that asks for more than the lock is notified, and takes it itself.
func TestFairReleaseTellsAHeadThatCannotBeGivenTheLock(t *testing.T) {
	directly(t, func(f fair, listen func(string) *subscriber) {
		first, second := listen(ann), listen(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, true)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantDump(f.t, job, "nothing")
		first.want(f.t, "?"+anns)
		f.refused(bobs, script.FairAgain, anns, 0)
		ok, _, err := script.FairAcquire(f.t.Context(), f, f.Fair, script.FairPlace{Owner: anns, Ahead: ahead}, lease, script.FairAgain)
		if !ok || err != nil {
			f.t.Fatalf("the head does not get the lock: %v, %v, want true", ok, err)
		}
		f.release(anns, true)
		f.wantGiven(bobs)
		second.want(f.t, bobs+" "+nonce(bobs))
	})
}

// A head that is not subscribed keeps its place for a moment only.
func TestFairReleaseWhereTheHeadDoesNotListen(t *testing.T) {
	inTime(t)
	directly(t, func(f fair, listen func(string) *subscriber) {
		second := listen(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantDump(f.t, job, "nothing")
		f.wantQueue(anns, ahead, bobs, ahead)
		second.want(f.t)
		f.refused(bobs, script.FairAgain, anns, 0)
		f.silentFor(anns, 900*time.Millisecond)
		f.refused(bobs, script.FairAgain, anns, 0)
		f.silentFor(anns, time.Second)
		f.gets(bobs, script.FairAgain)
		f.wantQueue()
	})
}

// A head whose client has shown no sign of life for long is not granted the lock.
func TestFairReleaseWhereTheHeadIsFrozen(t *testing.T) {
	directly(t, func(f fair, listen func(string) *subscriber) {
		first, second := listen(ann), listen(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.askedBefore(anns, 10*time.Second)
		f.must(f.t, "HSET", keyspace.FairSigns(job), ann, "1")
		f.release(me, true)
		first.want(f.t)
		// It is dropped; the next one is notified, and asks.
		f.wantQueue(bobs, ahead)
		second.want(f.t, "?"+bobs)
		f.gets(bobs, script.FairAgain)
	})
}

// Threads of Redisson's take the lock themselves, and are notified on the channel to
// which they subscribe. Mortise's waiters know of them.
func TestFairReleaseAmongRedissonsThreads(t *testing.T) {
	directly(t, func(f fair, listen func(string) *subscriber) {
		first := listen(ann)
		theirs := f.listen(f.t, keyspace.FairChannel(job, java), f.Turns == "spublish")
		f.gets(eves, script.FairOnce)
		if f.waits(bobs, false) {
			f.t.Error("one of mortise's is told of threads of Redisson's, and there are none")
		}
		f.release(bobs, false)
		f.enqueue(java, step)
		if !f.waits(anns, false) {
			f.t.Error("a waiter behind a thread of Redisson's does not learn of it")
		}
		news, err := script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns))
		if err != nil || !news.Mixed {
			f.t.Errorf("tend: mixed is %v, %v, want true", news.Mixed, err)
		}
		f.release(eves, true)
		f.wantDump(f.t, job, "nothing")
		theirs.want(f.t, "0")
		first.want(f.t)
		f.gets(java, script.FairQueue)
		news, err = script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns))
		if err != nil || !news.Mixed {
			f.t.Errorf("tend, where a thread of Redisson's has the lock: mixed is %v, %v, want true", news.Mixed, err)
		}
		f.release(java, true)
		f.wantGiven(anns)
		first.want(f.t, anns+" "+nonce(anns))
	})
}

// wantLifetimes checks that every key ends by itself.
func (f fair) wantLifetimes() {
	f.t.Helper()
	for _, key := range []string{
		job, keyspace.FairQueue(job), keyspace.FairDeadlines(job), keyspace.FairOurs(job), keyspace.FairSigns(job),
	} {
		if f.ttl(f.t, key) == none {
			f.t.Errorf("the key %s has no TTL", key)
		}
	}
}

// Whatever is done to a queue, and whichever waiters are removed and put back,
// it goes when all clients have forgotten it.
func TestFairKeysHaveTTLs(t *testing.T) {
	for name, test := range forgottenQueues {
		t.Run(name, func(t *testing.T) {
			directly(t, func(f fair, listen func(string) *subscriber) {
				test(f)
				f.wantLifetimes()
			})
		})
	}
}

// forgottenQueues are ways to leave waiters behind.
var forgottenQueues = map[string]func(f fair){
	"the only waiter does not learn that it has the lock": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.release(me, true)
		f.wantQueue(anns, ahead)
	},
	"nor do two": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantQueue(anns, ahead, bobs, ahead)
	},
	"one that can only be told": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, true)
		f.release(me, true)
		f.wantQueue(anns, ahead)
	},
	"the deadlines are gone": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.must(f.t, "DEL", keyspace.FairDeadlines(job))
		f.release(me, true)
	},
	"the deadlines are gone, and it asks": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.must(f.t, "DEL", keyspace.FairDeadlines(job))
		f.refused(anns, script.FairAgain, me, 1)
	},
	"the queue is gone": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.must(f.t, "DEL", keyspace.FairQueue(job))
		f.release(me, true)
		f.refusedOrNot(anns)
	},
	"mortise's keys are gone": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.must(f.t, "DEL", keyspace.FairOurs(job), keyspace.FairSigns(job))
		f.refused(bobs, script.FairQueue, me, 1)
		_, err := script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns))
		if err != nil {
			f.t.Error(err)
		}
		f.release(me, true)
	},
	"a copy comes late": func(f fair) {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.release(anns, false)
		f.refused(anns, script.FairAgain, me, 1)
		f.release(anns, false)
		if _, err := script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns)); err != nil {
			f.t.Error(err)
		}
	},
}

func (f fair) refusedOrNot(owner string) {
	f.t.Helper()
	f.acquire(f, owner, script.FairAgain)
}

// Where threads of Redisson's wait, there may be no mortise client that looks
// later: a head that has waited for a while and is not subscribed is passed over at
// once, and the releaser is asked to look again.
func TestFairReleasePastTheDeadToRedissonsThreads(t *testing.T) {
	inTime(t)
	directly(t, func(f fair, listen func(string) *subscriber) {
		theirs := f.listen(f.t, keyspace.FairChannel(job, java), f.Turns == "spublish")
		f.gets(eves, script.FairOnce)
		f.waits(anns, false)
		f.enqueue(java, step)
		for _, test := range []struct {
			asked time.Duration
			queue []any
		}{
			{900 * time.Millisecond, []any{anns, ahead, java, step}},
			{time.Second, []any{java, step}},
		} {
			f.must(f.t, "HSET", keyspace.FairOurs(job), anns, fmt.Sprint(f.now()-test.asked.Milliseconds(), " ", nonce(anns)))
			f.must(f.t, "HDEL", keyspace.FairSigns(job), "?"+anns)
			f.hold(f.t, job, lease, eves, "1")
			released, again, err := script.FairRelease(f.t.Context(), f, f.Fair, eves)
			if !released || err != nil || again <= 0 || again > time.Second {
				f.t.Errorf("release: %v, %v, look again in %v, want within a second", released, err, again)
			}
			if f.real && test.asked < time.Second {
				continue // it takes time
			}
			f.wantQueue(test.queue...)
		}
		theirs.want(f.t, "0")
		f.must(f.t, "DEL", keyspace.FairQueue(job), keyspace.FairDeadlines(job), keyspace.FairSigns(job), keyspace.FairOurs(job))
		// A subscribed one is granted the lock for three seconds, and then others may have it.
		// Redis still shows a key in the millisecond in which it ends, so the check must come
		// later, also by a client's clock that is one percent too fast.
		listen(ann)
		f.gets(eves, script.FairOnce)
		f.waits(anns, false)
		f.enqueue(java, step)
		soonest := script.GivenLease + script.GivenLease/100
		if _, again, err := script.FairRelease(f.t.Context(), f, f.Fair, eves); again < soonest || again > 2*soonest || err != nil {
			f.t.Errorf("look again in %v, %v, want in %v or a little later", again, err, soonest)
		}
		f.wantGiven(anns)
		// Without them no client has to look.
		f.release(anns, true)
		f.must(f.t, "DEL", keyspace.FairQueue(job), keyspace.FairDeadlines(job))
		f.gets(eves, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		if _, again, err := script.FairRelease(f.t.Context(), f, f.Fair, eves); again != 0 || err != nil {
			f.t.Errorf("look again in %v, %v, want not", again, err)
		}
	})
}

// A thread of Redisson's that is subscribed, and does not take the lock though it is
// notified again and again, is frozen.
func TestFairHeadThatIsToldAndDoesNotTakeIt(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.enqueue(java, step)
		f.subscriber(java)
		f.refused(me, script.FairQueue, java, 0)
		told := func(since time.Duration) {
			f.must(f.t, "HSET", keyspace.FairSigns(job), "told", fmt.Sprint(f.now()-since.Milliseconds(), " ", f.now()-900, " ", java))
		}
		told(9 * time.Second)
		f.refused(me, script.FairAgain, java, 0)
		// The lock was taken meanwhile, and the record is outdated.
		told(10 * time.Second)
		f.hold(f.t, job, lease, other, "1")
		if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, places(me)); err != nil {
			f.t.Fatal(err)
		}
		f.must(f.t, "DEL", job)
		f.refused(me, script.FairAgain, java, 0)
		told(10 * time.Second)
		f.gets(me, script.FairAgain)
		f.wantQueue()
	})
}

// Waiters for another lock in the same queue.
func TestFairStrangers(t *testing.T) {
	directly(t, func(f fair, listen func(string) *subscriber) {
		first := listen(ann)
		stranger := f.listen(f.t, keyspace.FairChannel(job, eves), f.Turns == "spublish")
		f.enqueue(eves, ahead)
		f.gets(me, script.FairOnce) // it does not obstruct
		f.waits(anns, false)
		f.release(me, true)
		f.wantGiven(anns)
		first.want(f.t, anns+" "+nonce(anns))
		f.wantQueue(eves, ahead)
		f.release(anns, true)
		f.wantDump(f.t, job, "nothing")
		stranger.want(f.t) // it was not notified either
		// Nor is a waiter of ours that has to ask.
		f.hold(f.t, job, lease, me, "1")
		f.waits(bobs, true)
		f.must(f.t, "DEL", job)
		f.gets(bobs, script.FairAgain)
		f.wantQueue(eves, ahead)
		f.release(bobs, true)
		// Dead ones are dropped when their time ends.
		f.must(f.t, "ZADD", keyspace.FairDeadlines(job), "1", eves)
		f.gets(me, script.FairOnce)
		f.wantQueue()
	})
}

// An acquirer learns whether it was granted the lock, or notified that it was free,
// before it asked.
func TestFairAcquireAfterItsTurnHasCome(t *testing.T) {
	for name, test := range map[string]struct{ tell, wait, came bool }{
		"granted": {wait: true, came: true}, "told": {tell: true, wait: true, came: true}, "not waiting": {},
	} {
		t.Run(name, func(t *testing.T) {
			directly(t, func(f fair, listen func(string) *subscriber) {
				listen(ann)
				f.gets(me, script.FairOnce)
				mode := script.FairOnce
				if test.wait {
					f.waits(anns, test.tell)
					mode = script.FairAgain
				}
				f.release(me, true)
				ok, why, err := script.FairAcquire(t.Context(), f, f.Fair, place(anns), lease, mode)
				if !ok || err != nil || why.Came != test.came {
					t.Errorf("got %v, %+v, %v, want the lock, and that its turn had come: %v", ok, why, err, test.came)
				}
			})
		})
	}
}
