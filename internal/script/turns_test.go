package script_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Three mortise clients, each of which waits with one id.
const (
	ann = "a1000000-0000-8000-8000-000000000001"
	bob = "b2000000-0000-8000-8000-000000000002"
	eve = "e3000000-0000-8000-8000-000000000003"

	anns, bobs, eves = ann + ":1", bob + ":1", eve + ":1"
)

// queueUp puts entries into the turns of the lock job, in this order.
func (w *world) queueUp(t *testing.T, entries ...string) {
	t.Helper()
	w.must(t, "DEL", keyspace.Turns(job))
	for i, entry := range entries {
		score := 1000 + i
		if entry == "~" && i == len(entries)-1 {
			score = 5e15
		}
		w.must(t, "ZADD", keyspace.Turns(job), fmt.Sprint(score), entry)
	}
}

func (w *world) wantTurns(t *testing.T, want ...string) {
	t.Helper()
	got := []string{}
	v := w.must(t, "ZRANGE", keyspace.Turns(job), "0", "-1")
	for i := range v.Len() {
		got = append(got, v.At(i).Str())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the turns are %q, want %q", got, want)
	}
}

// A refused acquirer that takes turns gets one, keeps its place, and learns of it.
func TestAcquireTakesATurn(t *testing.T) {
	type answer struct {
		ok  bool
		at  script.Standing
		err error
	}
	plain := func(d driver.Driver, id string, e script.Entry) (a answer) {
		a.ok, _, a.at, a.err = script.LockAcquire(t.Context(), d, job, id, lease, e)
		return a
	}
	fenced := func(d driver.Driver, id string, e script.Entry) (a answer) {
		token, _, at, err := script.FencedAcquire(t.Context(), d, job, id, lease, e)
		return answer{token > 0, at, err}
	}
	server := single(t)
	for name, acquire := range map[string]func(driver.Driver, string, script.Entry) answer{"lock": plain, "fenced": fenced} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				want := func(got answer, before int, fresh bool) {
					t.Helper()
					if got != (answer{at: script.Standing{Before: int32(before), New: fresh}}) {
						t.Errorf("the answer is %+v, want to be refused with %d before, new: %v", got, before, fresh)
					}
				}
				w.hold(t, job, lease, java, "1")
				want(acquire(w, anns, ""), 0, false)
				w.wantTurns(t)
				want(acquire(w, anns, script.ToGive(anns)), 0, true)
				w.pass(t)
				if got := acquire(lossy{w}, bobs, script.ToGiveBriefly(bobs)); driver.ClassOf(got.err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want class unknown", got.err)
				}
				w.pass(t)
				want(acquire(w, bobs, script.ToGiveBriefly(bobs)), 1, false)
				want(acquire(w, anns, script.ToGive(anns)), 0, false)
				w.wantTurns(t, anns, "?"+bobs)
				w.wantTTL(t, keyspace.Turns(job), 10*time.Second)

				w.must(t, "DEL", job)
				if got := acquire(w, bobs, script.ToGiveBriefly(bobs)); !got.ok || got.err != nil {
					t.Errorf("for a free lock the answer is %+v, want it", got)
				}
				w.wantTurns(t, anns)
				want(acquire(w, eves, script.ToGive(eves)), 1, true)

				w.must(t, "SET", keyspace.Turns(job), "no turns")
				if got := acquire(w, eves, script.ToGive(eves)); got.ok || driver.ClassOf(got.err) != driver.WrongType {
					t.Errorf("with a text for turns the answer is %+v, want an error of class wrong type", got)
				}
				w.wantDump(t, job, "hash "+bobs+"=1")
				w.must(t, "DEL", job)
				if got := acquire(w, eves, script.ToGive(eves)); !got.ok || got.err != nil {
					t.Errorf("for a free lock with a text for turns the answer is %+v, want it", got)
				}
			})
		})
	}
}

// pass lets the server's clock move on.
func (w *world) pass(t *testing.T) {
	t.Helper()
	if !w.real {
		time.Sleep(time.Millisecond)
		return
	}
	before := w.must(t, "TIME").String()
	for w.must(t, "TIME").String() == before { // each look takes time
	}
}

type releaseFunc func(ctx context.Context, d driver.Driver, p script.Publish, t script.Turns) (script.Released, error)

// granting are the scripts that release the lock of me and grant it to the next turn.
var granting = map[string]releaseFunc{
	"lock": func(ctx context.Context, d driver.Driver, p script.Publish, t script.Turns) (script.Released, error) {
		return script.LockRelease(ctx, d, job, me, p, t)
	},
	"multi": func(ctx context.Context, d driver.Driver, p script.Publish, t script.Turns) (script.Released, error) {
		released, err := script.MultiRelease(ctx, d, []script.Release{{Key: job, Owner: me, Channel: channel, Turns: t}}, p)
		if len(released) != 1 {
			return script.NotHeld, err
		}
		return released[0], err
	},
}

// The holder after a release, and the clients that are notified of it.
func TestReleaseLetsTheNextHaveIt(t *testing.T) {
	server := single(t)
	for name, release := range granting {
		for _, command := range publishers(t) {
			for _, test := range releaseCases() {
				t.Run(name+"/"+command+"/"+test.name, func(t *testing.T) {
					if test.brief {
						inTime(t)
					}
					check := func(t *testing.T, w *world) { test.run(t, w, release, command) }
					if command != "spublish" {
						everywhere(t, server, check)
					} else if proof || !test.brief { // the embedded Redis has no sharded messages
						onServer(t, "redis-server", server, check)
					}
				})
			}
		}
	}
}

// releaseCase is a release, and the messages that each client receives.
type releaseCase struct {
	name     string
	turns    []string
	listen   []string // the clients that are subscribed
	others   bool     // threads of Redisson's are subscribed to their channel from the beginning
	ours     bool     // that subscriber is a client of mortise's
	row      int
	keep     bool
	shared   bool
	vain     int // chances, for 160 ms
	after    string
	brief    bool     // a granted lock is granted for a second only
	left     []string // the remaining turns
	isLeft   bool     // the answer says that the lock is left to Redisson's threads
	received map[string][]string
	nothing  bool // on Redisson's channel
}

// became is the outcome of the release.
func (test releaseCase) became() script.Released {
	switch {
	case test.isLeft:
		return script.ReleasedLeft
	case test.after != free:
		return script.ReleasedGranted
	}
	return script.ReleasedNow
}

// run releases the lock twice: with the reply, and without it.
func (test releaseCase) run(t *testing.T, w *world, release releaseFunc, command string) {
	way := script.Classic
	if command == "spublish" {
		way = script.Sharded
	}
	all, subs := test.subscribe(t, w, way == script.Sharded)
	for _, lost := range []bool{false, true} {
		w.must(t, "DEL", job)
		w.hold(t, job, lease, me, "3")
		w.queueUp(t, test.turns...)
		turns := script.Turns{Command: command, Row: test.row, Keep: test.keep, Shared: test.shared, Vain: test.vain, KeepFor: 160 * time.Millisecond}
		if lost {
			if _, err := release(t.Context(), lossy{w}, way, turns); driver.ClassOf(err) != driver.Unknown {
				t.Errorf("with a lost reply: %v, want class unknown", err)
			}
		} else if became, err := release(t.Context(), w, way, turns); became != test.became() || err != nil {
			t.Errorf("release: %v, %v, want %v", became, err, test.became())
		}
		// A repeat changes nothing.
		if became, err := release(t.Context(), w, way, turns); became != script.NotHeld || err != nil {
			t.Errorf("a second release: %v, %v, want nothing", became, err)
		}
		w.wantDump(t, job, test.after)
		switch {
		case test.after == free:
			w.wantTTL(t, job, absent)
		case test.brief:
			w.wantTTL(t, job, time.Second)
		default:
			w.wantTTL(t, job, script.GivenLease)
		}
		w.wantTurns(t, test.left...)
		for client, sub := range subs {
			sub.want(t, test.received[client]...)
		}
		if all != nil {
			all.want(t, test.messages()...)
		}
	}
}

// subscribe returns the subscribers: all is that of the lock's channel, if there is one, subs are those of
// the clients.
func (test releaseCase) subscribe(t *testing.T, w *world, sharded bool) (all *subscriber, subs map[string]*subscriber) {
	if test.others && test.ours {
		all = w.listen(t, channel, sharded)
	} else if test.others {
		all = w.listenAsRedisson(t, channel, sharded)
	}
	subs = map[string]*subscriber{}
	for _, client := range test.listen {
		subs[client] = w.listen(t, keyspace.TurnChannel(job, client), sharded)
	}
	return all, subs
}

// messages are those on the lock's channel.
func (test releaseCase) messages() []string {
	switch {
	case test.nothing:
		return nil
	case test.isLeft && (len(test.turns) > 0 || test.shared):
		return []string{"000"}
	case test.after != free:
		return []string{"00"} // to learn for how long it is granted
	case test.keep || test.shared:
		return []string{"0000"}
	default:
		return []string{"0"}
	}
}

// free is the dump of a free lock.
const free = "nothing"

func releaseCases() []releaseCase {
	granted := func(id string) string { return "hash " + id + "=1" }
	return []releaseCase{
		{name: "nobody", after: free},
		{name: "granted", turns: []string{anns, bobs}, listen: []string{ann, bob}, after: granted(anns), left: []string{bobs},
			received: map[string][]string{ann: {anns + " 1"}}, nothing: true},
		{name: "granted in a row", turns: []string{anns}, listen: []string{ann}, row: 2, after: granted(anns),
			received: map[string][]string{ann: {anns + " 3"}}, nothing: true},
		{name: "granted briefly", turns: []string{"?" + anns, bobs}, listen: []string{ann, bob}, after: "hash " + anns + "=0", left: []string{bobs},
			brief: true, received: map[string][]string{ann: {anns + " 1"}}, nothing: true},
		{name: "passed over", turns: []string{anns, "?" + anns, bobs, eves}, listen: []string{bob, eve}, after: granted(bobs), left: []string{eves},
			received: map[string][]string{bob: {bobs + " 1"}}, nothing: true},
		{name: "all gone", turns: []string{anns, "?" + bobs, eves}, after: free},
		{name: "fourth in a row", turns: []string{anns}, listen: []string{ann}, row: 4, after: granted(anns),
			received: map[string][]string{ann: {anns + " 5"}}, nothing: true},
		{name: "others", turns: []string{anns}, listen: []string{ann}, others: true, after: free, isLeft: true,
			left: []string{anns, "~"}, received: map[string][]string{ann: {"~"}}},
		{name: "others, one of three", turns: []string{anns, bobs}, listen: []string{ann, bob}, others: true, after: granted(anns),
			left: []string{bobs}, received: map[string][]string{ann: {anns + " 1 0 0"}}},
		{name: "others, one of three, whose turn it is", turns: []string{anns, bobs}, listen: []string{ann, bob}, others: true, row: 1, after: free, isLeft: true,
			left: []string{anns, bobs, "~"}, received: map[string][]string{ann: {"~"}}},
		{name: "others, and one that asks", turns: []string{"?" + anns, bobs}, listen: []string{ann, bob}, others: true, row: 3, after: free, isLeft: true,
			left: []string{"?" + anns, bobs, "~"}, received: map[string][]string{ann: {"~"}}},
		{name: "others, one of ours", turns: []string{anns}, listen: []string{ann}, others: true, ours: true, after: granted(anns),
			received: map[string][]string{ann: {anns + " 1"}}, nothing: true},
		{name: "only others", others: true, after: free, isLeft: true},
		{name: "only others, known", others: true, shared: true, after: free, left: []string{"~"}, isLeft: true},
		{name: "others, left to them before", turns: []string{anns, "~"}, listen: []string{ann}, others: true, row: 3, keep: true, after: granted(anns),
			received: map[string][]string{ann: {anns + " 4 0 0"}}},
		{name: "only others, left to them before", turns: []string{"~"}, others: true, shared: true, after: free, left: []string{"~"}, isLeft: true},
		{name: "left to others before who are gone", turns: []string{"~"}, after: free},
		{name: "only others, ours, shared", others: true, ours: true, shared: true, after: free},
		{name: "only others, ours", others: true, ours: true, after: free},
		{name: "others, kept", turns: []string{anns}, listen: []string{ann}, others: true, row: 3, keep: true, after: granted(anns),
			received: map[string][]string{ann: {anns + " 4 0 0"}}},
		{name: "others, kept after five chances in vain", turns: []string{anns}, listen: []string{ann}, others: true, row: 3, keep: true, vain: 5, after: granted(anns),
			received: map[string][]string{ann: {anns + " 4 5 160"}}},
		{name: "others, left after two chances in vain", turns: []string{anns}, listen: []string{ann}, others: true, row: 3, shared: true, vain: 2, after: free, isLeft: true,
			left: []string{anns, "~"}, received: map[string][]string{ann: {"~ 2 160"}}},
		{name: "a mark before the others", turns: []string{"~", anns}, listen: []string{ann}, after: granted(anns), received: map[string][]string{ann: {anns + " 1"}}},
		{name: "only others, kept", others: true, keep: true, after: free},
	}
}

// If no client takes turns, a release notifies no particular client, whatever the key
// of the turns holds.
func TestReleaseWithoutTurns(t *testing.T) {
	server := single(t)
	for name, release := range granting {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				all, sub := w.listen(t, channel, false), w.listen(t, keyspace.TurnChannel(job, ann), false)
				w.hold(t, job, lease, me, "1")
				w.queueUp(t, anns)
				if became, err := release(t.Context(), w, script.Classic, script.Turns{}); became != script.ReleasedNow || err != nil {
					t.Errorf("release: %v, %v, want it to be released", became, err)
				}
				w.wantDump(t, job, "nothing")
				w.wantTurns(t, anns)
				sub.want(t)
				all.want(t, "0")
			})
		})
	}
}

// A waiter that gives up leaves the turns, with either entry; if it was granted the
// lock, it grants it to the next.
func TestReleaseByOneWhoWaits(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		leave := func(id string, want bool) {
			t.Helper()
			turns := script.Turns{Command: "publish"}
			if ok, err := released(script.LockRelease(t.Context(), w, job, id, script.Classic, turns)); ok != want || err != nil {
				t.Errorf("release of %s: %v, %v, want %v", id, ok, err, want)
			}
		}
		sub := w.listen(t, keyspace.TurnChannel(job, eve), false)
		w.hold(t, job, lease, java, "1")
		w.queueUp(t, anns, "?"+bobs, "?"+anns, eves)
		leave(anns, false)
		w.wantTurns(t, "?"+bobs, eves)
		leave(bobs, false)
		w.wantTurns(t, eves)
		w.wantDump(t, job, "hash "+java+"=1")
		sub.want(t)
		w.must(t, "DEL", job)
		w.hold(t, job, script.GivenLease, anns, "1")
		leave(anns, true)
		w.wantDump(t, job, "hash "+eves+"=1")
		sub.want(t, eves+" 1")
		w.must(t, "SET", keyspace.Turns(job), "no turns")
		leave(anns, false)
		leave(eves, true)
		w.wantDump(t, job, "nothing")
		sub.want(t)
	})
}

// Each of several locks goes to its own next turn.
func TestMultiReleaseLetsTheNextHaveEach(t *testing.T) {
	const second = "{" + job + "}2"
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		sub, other := w.listen(t, keyspace.TurnChannel(job, ann), false), w.listen(t, keyspace.TurnChannel(second, bob), false)
		w.hold(t, job, lease, me, "1")
		w.hold(t, second, lease, me, "1")
		w.queueUp(t, anns)
		w.must(t, "ZADD", keyspace.Turns(second), "1", bobs)
		turns := script.Turns{Command: "publish"}
		locks := []script.Release{{Key: job, Owner: me, Channel: channel, Turns: turns}, {Key: second, Owner: me, Channel: keyspace.LockChannel(second), Turns: turns}}
		released, err := script.MultiRelease(t.Context(), w, locks, script.Classic)
		if err != nil || !slices.Equal(freed(released), []bool{true, true}) {
			t.Errorf("release: %v, %v, want both", released, err)
		}
		w.wantDump(t, job, "hash "+anns+"=1")
		w.wantDump(t, second, "hash "+bobs+"=1")
		sub.want(t, anns+" 1")
		other.want(t, bobs+" 1")
	})
}

// An acquirer with an entry learns whether its turn had come before that.
func TestAcquireAfterItsTurnHasCome(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for name, acquire := range map[string]func(e script.Entry) (bool, script.Standing, error){
			"lock": func(e script.Entry) (bool, script.Standing, error) {
				ok, _, at, err := script.LockAcquire(t.Context(), w, job, anns, lease, e)
				return ok, at, err
			},
			"fenced": func(e script.Entry) (bool, script.Standing, error) {
				token, _, at, err := script.FencedAcquire(t.Context(), w, job, anns, lease, e)
				return token > 0, at, err
			},
		} {
			for _, test := range []struct {
				grant bool     // the lock, to the asking client
				turns []string // the existing turns
				entry script.Entry
				came  bool
			}{
				{false, []string{bobs, anns}, script.ToGive(anns), false},
				{false, []string{"?" + anns}, script.ToGiveBriefly(anns), false},
				{false, []string{bobs}, script.ToGive(anns), true},
				{false, []string{bobs}, script.ToGiveBriefly(anns), true},
				{true, []string{bobs}, script.ToGive(anns), true},
				{true, []string{bobs}, script.ToGiveBriefly(anns), true},
				{false, []string{bobs}, "", false},
				{true, []string{bobs}, "", false},
			} {
				w.must(t, "DEL", job)
				w.queueUp(t, test.turns...)
				if test.grant {
					w.hold(t, job, lease, anns, "1")
				}
				ok, at, err := acquire(test.entry)
				if !ok || err != nil || at != (script.Standing{Came: test.came}) {
					t.Errorf("%s, %+v: got %v, %+v, %v, want Came %v", name, test, ok, at, err, test.came)
				}
			}
		}
	})
}

// A lock that was granted for a moment gets the lease that its holder asks for, also a shorter one. A copy of that
// request that comes late makes no lease shorter.
func TestAcquireAfterABriefGrant(t *testing.T) {
	inTime(t)
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for name, acquire := range map[string]func(lease time.Duration) (bool, error){
			"lock": func(lease time.Duration) (bool, error) {
				ok, _, _, err := script.LockAcquire(t.Context(), w, job, anns, lease, "")
				return ok, err
			},
			"fenced": func(lease time.Duration) (bool, error) {
				token, _, _, err := script.FencedAcquire(t.Context(), w, job, anns, lease, "")
				return token > 0, err
			},
		} {
			for _, lease := range []time.Duration{100 * time.Millisecond, time.Minute} {
				w.must(t, "DEL", job)
				w.hold(t, job, time.Second, anns, "0")
				if ok, err := acquire(lease); !ok || err != nil {
					t.Errorf("%s: %v, %v, want it to be acquired", name, ok, err)
				}
				w.wantDump(t, job, "hash "+anns+"=1")
				w.wantTTL(t, job, lease)
			}
			if ok, err := acquire(100 * time.Millisecond); !ok || err != nil {
				t.Errorf("%s, late: %v, %v, want it to be acquired", name, ok, err)
			}
			w.wantTTL(t, job, time.Minute)
		}
	})
}

// turnless is a driver of a user without the right to the turns of locks: Redis checks the rights to
// all keys of a script before it runs.
type turnless struct{ driver.Driver }

func (d turnless) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if slices.Contains(call.Keys, keyspace.Turns(job)) {
		return driver.Value{}, &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
	}
	return d.Driver.Eval(ctx, call)
}

// A release without the right to the turns says of the lock what is so: that it was released, that the
// reply was lost, so that it is sent again, or that another holds the lock.
func TestReleaseWithoutTurnsSaysWhatIsSo(t *testing.T) {
	turns := script.Turns{Command: "publish"}
	server := single(t)
	for name, release := range map[string]func(driver.Driver) (bool, error){
		"Lock": func(d driver.Driver) (bool, error) {
			return released(script.LockRelease(t.Context(), d, job, me, script.Classic, turns))
		},
		"several": func(d driver.Driver) (bool, error) {
			all, err := script.MultiRelease(t.Context(), d, []script.Release{{Key: job, Owner: me, Channel: channel, Turns: turns}}, script.Classic)
			return slices.Contains(freed(all), true), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				w.hold(t, job, lease, me, "1")
				if ok, err := release(turnless{w}); !ok || err == nil || driver.ClassOf(err) != driver.Denied {
					t.Errorf("of a lock that is held: %v, %v, want true and an error of class denied", ok, err)
				}
				w.wantDump(t, job, "nothing")
				w.hold(t, job, lease, me, "1")
				if ok, err := release(turnless{lossy{w}}); ok || driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, %v, want class unknown", ok, err)
				}
				w.hold(t, job, lease, java, "1")
				if ok, err := release(turnless{w}); ok || err != nil {
					t.Errorf("of a lock that another holds: %v, %v, want false", ok, err)
				}
				w.wantDump(t, job, "hash "+java+"=1")
			})
		})
	}
}
