//go:build server

package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

func TestFairWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for right, after := range map[string]string{
		"hlen": "nothing", "time": "nothing", "lindex": "nothing", "hset": "nothing", "pexpire": "nothing", "lpop": "nothing",
	} {
		t.Run(right, func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job)}}
			f.enqueue(me, step)
			f.enqueue(java, 2*step)
			d := f.login(t, "+@all", "~*", "&*", "-"+right)
			ok, _, err := script.FairAcquire(t.Context(), d, f.Fair, place(me), lease, script.FairQueue)
			if ok || driver.ClassOf(err) != driver.Denied {
				t.Errorf("got %v, %v, want class denied", ok, err)
			}
			f.wantDump(t, job, after)
			f.wantQueue(me, step, java, 2*step)
		})
	}
	for _, right := range []string{"rpush", "zadd", "hgetall"} {
		t.Run("queueing/"+right, func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job)}}
			f.hold(t, job, lease, java, "1")
			d := f.login(t, "+@all", "~*", "&*", "-"+right)
			ok, _, err := script.FairAcquire(t.Context(), d, f.Fair, place(me), lease, script.FairQueue)
			if ok || driver.ClassOf(err) != driver.Denied {
				t.Errorf("got %v, %v, want class denied", ok, err)
			}
			f.wantQueue()
		})
	}
	// It works without knowing which clients are subscribed.
	f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job)}}
	d := f.login(t, "+@all", "~*", "&*", "-pubsub")
	f.enqueue(java, step)
	if ok, why := f.acquire(d, me, script.FairQueue); ok || why.Owner != java {
		t.Errorf("got %v, %+v, want to be refused for %s", ok, why, java)
	}
	f.toldBefore(java, time.Second)
	if ok, why := f.acquire(d, me, script.FairAgain); ok || why.Owner != java {
		t.Errorf("got %v, %+v, want to be refused for %s still", ok, why, java)
	}
}

func TestFairReleaseThatIsNotHeard(t *testing.T) {
	server := redistest.Single(t)
	f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job)}}
	f.hold(t, job, lease, me, "1")
	f.enqueue(java, step)
	d := f.login(t, "+@all", "~*", "resetchannels")
	ok, _, err := script.FairRelease(t.Context(), d, f.Fair, me)
	if !ok || driver.ClassOf(err) != driver.Denied {
		t.Errorf("got %v, %v, want released, with class denied", ok, err)
	}
	f.wantDump(t, job, "nothing")
}

func TestFairOnACluster(t *testing.T) {
	server := redistest.Single(t)
	f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Publish: script.Sharded, Cluster: true}}
	f.hold(t, job, lease, me, "1")
	f.enqueue(java, step)
	sub := f.listen(t, keyspace.FairChannel(job, java), true)
	f.release(me, true)
	sub.want(t, "0")
	f.refused(me, script.FairQueue, java, 0)
	f.toldBefore(java, time.Second)
	f.refused(me, script.FairAgain, java, 0) // it listens
}
