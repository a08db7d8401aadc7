package waiting

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/memredis"
)

// A waiter is put in front of the head while the head asks Redis with the id of the
// client's turn. No other request may ask with that id while its reply is on its way. If
// the attempt is refused, the entry that it has made is removed. The test is inside the
// package, because only there it can stop between the attempt and its reply.
func TestTurnOfADisplacedHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		holder, c := newClient(s.Driver()), newClient(s.Driver())
		defer holder.Close()
		defer c.Close()
		hold, err := Acquire(t.Context(), plainLock(holder, "job"), true)
		if err != nil {
			t.Fatal(err)
		}
		k := plainLock(c, "job")
		request := func() *request {
			r, err := newRequest(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		turns := func() []string { return turnsOf(t, s.Driver(), "job") }

		first := request()
		w := &newContest(t.Context(), first).w
		SiteOf(k).Join(w, false)
		first.prepareTurn(w)
		synctest.Wait() // until the client listens
		if !first.prepareTurn(w) {
			t.Fatal("the only waiter is not the head")
		}
		if got, err := first.attempt(t.Context()); !errors.Is(err, lease.ErrNoHold) {
			t.Fatalf("the attempt gave %v, %v, want a refusal", got, err)
		}
		if got := turns(); len(got) != 1 || got[0] != first.turn {
			t.Fatalf("the turns are %q, want %q", got, first.turn)
		}

		second := request()
		front := &newContest(t.Context(), second).w
		SiteOf(k).Join(front, true)
		if !second.prepareTurn(front) || second.turn == first.turn {
			t.Errorf("the one in front asks with the id %q, and the one behind with %q; want others", second.turn, first.turn)
		}
		SiteOf(k).called(first.turn + " 1") // a late grant
		var seen view
		if err := front.see(&seen); err != nil || seen.position == granted {
			t.Error("the one in front has what was given to the one behind")
		}
		first.turnAnswered(true)
		synctest.Wait()
		if got := turns(); len(got) != 0 {
			t.Errorf("the turns are %q after the refusal, want none", got)
		}
		SiteOf(k).Leave(front)
		SiteOf(k).Leave(w)
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// turnsOf returns the entries of the clients that wait for a lock.
func turnsOf(t *testing.T, d driver.Driver, name string) (entries []string) {
	v, err := d.Eval(t.Context(), driver.Call{
		Script: driver.NewScript("turns", `return redis.call('zrange', KEYS[1], 0, -1)`), Keys: []string{"mortise:turns:{" + name + "}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Len() {
		entries = append(entries, v.At(i).Str())
	}
	return entries
}
