package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// directly runs f as fairly does, where mortise's waiters are told by the channel
// of their client; and on a real server with sharded messages, as on a cluster.
func directly(t *testing.T, f func(f fair, ear func(client string) *ear)) {
	t.Helper()
	server := redistest.Single(t)
	run := func(t *testing.T, w *world, k script.Fair) {
		k.FairKeys = script.NewFairKeys(job)
		f(fair{w, t, k}, func(client string) *ear {
			t.Helper()
			return w.listen(t, keyspace.FairTurnChannel(job, client), k.Turns == "spublish")
		})
	}
	everywhere(t, server, func(t *testing.T, w *world) { run(t, w, script.Fair{Turns: "publish"}) })
	t.Run("sharded", func(t *testing.T) {
		run(t, realWorld(t, server), script.Fair{Publish: script.Sharded, Cluster: true, Turns: "spublish"})
	})
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

// wantGiven checks that the lock was given to owner, who is not in the queue any
// more.
func (f fair) wantGiven(owner string) {
	f.t.Helper()
	f.wantDump(f.t, job, "hash "+owner+"=1")
	f.wantTTL(f.t, job, script.GivenLease)
	if n := f.must(f.t, "HEXISTS", keyspace.FairOurs(job), owner).Int(); n != 0 {
		f.t.Errorf("%s has the lock, and is among those who wait", owner)
	}
}

func TestFairReleaseGivesTheLockToTheHead(t *testing.T) {
	directly(t, func(f fair, ear func(string) *ear) {
		first, second := ear(ann), ear(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantGiven(anns)
		first.want(f.t, anns+" "+nonce(anns))
		second.want(f.t)
		f.release(me, false) // its reply was lost, say
		f.wantGiven(anns)
		// It asks, and has the lock for as long as anybody.
		f.gets(anns, script.FairAgain)
		f.release(anns, true)
		f.wantGiven(bobs)
		second.want(f.t, bobs+" "+nonce(bobs))
		f.wantQueue()
		f.release(bobs, true) // it did not want it any more
		f.wantDump(f.t, job, "nothing")
		first.want(f.t)
		second.want(f.t)
	})
}

// One that asks for more than the lock is told, and takes it itself.
func TestFairReleaseTellsAHeadThatCannotBeGivenTheLock(t *testing.T) {
	directly(t, func(f fair, ear func(string) *ear) {
		first, second := ear(ann), ear(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, true)
		f.waits(bobs, false)
		f.release(me, true)
		f.wantDump(f.t, job, "nothing")
		first.want(f.t, "?"+anns)
		f.refused(bobs, script.FairAgain, anns, 0)
		ok, _, err := script.FairAcquire(f.t.Context(), f, f.Fair, script.FairPlace{Owner: anns, Ahead: ahead}, lease, script.FairAgain)
		if !ok || err != nil {
			f.t.Fatalf("the head does not get the lock: %v, %v", ok, err)
		}
		f.release(anns, true)
		f.wantGiven(bobs)
		second.want(f.t, bobs+" "+nonce(bobs))
	})
}

// A head that does not listen keeps its place for a moment, and no more.
func TestFairReleaseWhereTheHeadDoesNotListen(t *testing.T) {
	directly(t, func(f fair, ear func(string) *ear) {
		second := ear(bob)
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

// A head whose client has shown no life for long is not given the lock.
func TestFairReleaseWhereTheHeadIsFrozen(t *testing.T) {
	directly(t, func(f fair, ear func(string) *ear) {
		first, second := ear(ann), ear(bob)
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		f.waits(bobs, false)
		f.must(f.t, "HSET", keyspace.FairSigns(job), ann, "1")
		f.release(me, true)
		first.want(f.t)
		// It is dropped; the next one is told, and asks.
		f.wantQueue(bobs, ahead)
		second.want(f.t, "?"+bobs)
		f.gets(bobs, script.FairAgain)
	})
}

// Threads of Redisson's take the lock themselves, and hear of it where they
// listen. Mortise's waiters know that they are there.
func TestFairReleaseAmongRedissonsThreads(t *testing.T) {
	directly(t, func(f fair, ear func(string) *ear) {
		first := ear(ann)
		theirs := f.listen(f.t, keyspace.FairChannel(job, java), f.Turns == "spublish")
		f.gets(eves, script.FairOnce)
		if f.waits(bobs, false) {
			f.t.Error("one of mortise's is told of threads of Redisson's, and there are none")
		}
		f.release(bobs, false)
		f.enqueue(java, step)
		if !f.waits(anns, false) {
			f.t.Error("one who waits behind a thread of Redisson's is not told of it")
		}
		_, _, mixed, err := script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns))
		if err != nil || !mixed {
			f.t.Errorf("tend: mixed is %v, %v, want true", mixed, err)
		}
		f.release(eves, true)
		f.wantDump(f.t, job, "nothing")
		theirs.want(f.t, "0")
		first.want(f.t)
		f.gets(java, script.FairQueue)
		_, _, mixed, err = script.FairTend(f.t.Context(), f, f.Fair, ann, places(anns))
		if err != nil || !mixed {
			f.t.Errorf("tend, where a thread of Redisson's has the lock: mixed is %v, %v, want true", mixed, err)
		}
		f.release(java, true)
		f.wantGiven(anns)
		first.want(f.t, anns+" "+nonce(anns))
	})
}

// Redis may refuse to publish. Then nobody has the lock, and the head is not lost.
func TestFairReleaseWhereTheMessageIsRefused(t *testing.T) {
	server := redistest.Single(t)
	for name, rules := range map[string][]string{
		"no channel": {"resetchannels"}, "no PUBLISH": {"-publish"}, "no PUBLISH and no DEL": {"-publish", "-del"}, "no PEXPIRE": {"-pexpire"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}
			ear := f.listen(t, keyspace.FairTurnChannel(job, ann), false)
			f.gets(me, script.FairOnce)
			f.waits(anns, false)
			f.waits(bobs, false)
			d := f.login(t, append([]string{"+@all", "~*", "&*"}, rules...)...)
			released, _, err := script.FairRelease(t.Context(), d, f.Fair, me)
			if name != "no PEXPIRE" && (!released || err == nil) {
				t.Errorf("release: %v, %v, want true and the refusal", released, err)
			}
			f.wantDump(t, job, "nothing")
			f.wantQueue(anns, ahead, bobs, ahead)
			if name != "no PEXPIRE" {
				ear.want(t)
			}
			f.gets(anns, script.FairAgain)
		})
	}
}
