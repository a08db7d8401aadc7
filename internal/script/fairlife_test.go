package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// lived sets until when a client lives, from now on.
func (f fair) lived(client string, d time.Duration) {
	f.t.Helper()
	f.must(f.t, "HSET", keyspace.FairSigns(job), client, fmt.Sprint(f.now()+d.Milliseconds()))
}

// Until a client shows life for all its waiters, each one lives because it has asked: for ten seconds.
func TestFairAskingIsASignOfLife(t *testing.T) {
	inTime(t)
	for name, test := range map[string]struct {
		asked, sign time.Duration // ago, and from now; none if 0
		given       bool
	}{
		"asked lately": {9 * time.Second, 0, true}, "asked lately, and an earlier wait ended long ago": {9 * time.Second, -time.Hour, true},
		"asked long ago": {10 * time.Second, 0, false}, "asked long ago, and lives": {time.Hour, 5 * time.Second, true},
		"asked long ago, and lived": {time.Hour, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			directly(t, func(f fair, listen func(string) *subscriber) {
				first, second := listen(ann), listen(bob)
				f.gets(me, script.FairOnce)
				f.waits(anns, false)
				f.waits(bobs, true)
				f.askedBefore(anns, test.asked)
				if test.sign != 0 {
					f.lived(ann, test.sign)
				}
				f.release(me, true)
				if test.given {
					f.wantGiven(anns)
					first.want(f.t, anns+" "+nonce(anns))
					return
				}
				first.want(f.t) // it is dropped, and the next is told
				second.want(f.t, "?"+bobs)
				f.wantQueue(bobs, ahead)
			})
		})
	}
}

// If a client lets the lock pass, the scripts do not wait for what it had asked before, but for what
// it asks from then on, and for everything once it shows life.
func TestFairClientThatLetTheLockPass(t *testing.T) {
	inTime(t)
	for name, after := range map[string]func(f fair){
		"asks": func(f fair) { f.refused(mine2, script.FairAgain, other, 0) },
		"shows life": func(f fair) {
			if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, nil); err != nil {
				f.t.Fatal(err)
			}
		},
		"": nil,
	} {
		t.Run(name, func(t *testing.T) {
			fairly(t, func(f fair) {
				const third = client + ":3"
				f.gets(java, script.FairOnce)
				f.refused(me, script.FairQueue, java, 1)
				f.refused(other, script.FairQueue, java, 1)
				f.refused(mine2, script.FairQueue, java, 1)
				f.refused(third, script.FairQueue, java, 1)
				for _, waiter := range []string{mine2, third} {
					f.askedBefore(waiter, time.Second)
				}
				f.release(java, true)
				f.refused(other, script.FairAgain, me, 0)
				f.silentFor(me, time.Second)
				f.refused(eves, script.FairQueue, other, 0) // me is dropped
				f.wantTTL(f.t, keyspace.FairSigns(job), time.Minute)
				time.Sleep(time.Millisecond) // the next sign is later
				if after != nil {
					after(f)
				}
				f.silentFor(other, time.Second)
				if after == nil {
					f.gets(eves, script.FairAgain) // none of them is waited for
					f.wantQueue()
					return
				}
				f.refused(eves, script.FairAgain, mine2, 0)
			})
		})
	}
}

// That a client let the lock pass is known as long as what its waiters had asked before could count.
func TestFairLettingTheLockPassIsNotForgotten(t *testing.T) {
	inTime(t)
	fairly(t, func(f fair) {
		f.gets(java, script.FairOnce)
		f.refused(me, script.FairQueue, java, 1)
		for at, kept := range map[time.Duration]int64{9 * time.Second: 1, 11 * time.Second: 0} {
			f.must(f.t, "HSET", keyspace.FairSigns(job), ann, fmt.Sprint(-f.now()+at.Milliseconds()), "noted", "1")
			if _, err := script.FairTend(f.t.Context(), f, f.Fair, client, nil); err != nil {
				f.t.Fatal(err)
			}
			if n := f.must(f.t, "HEXISTS", keyspace.FairSigns(job), ann).Int(); n != kept {
				f.t.Errorf("after %v there are %d notes that a client let the lock pass, want %d", at, n, kept)
			}
		}
	})
}
