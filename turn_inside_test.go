package mortise

import (
	"testing"
	"testing/synctest"

	"github.com/mortise-go/mortise/driver"
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
		holder, c := New(s.Driver(), nil), New(s.Driver(), nil)
		defer holder.Close()
		defer c.Close()
		hold, _, err := holder.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k := c.Lock("job")
		request := func() *request {
			r, err := k.request(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		turns := func() (entries []string) {
			v, err := s.Driver().Eval(t.Context(), driver.Call{
				Script: driver.NewScript("turns", `return redis.call('zrange', KEYS[1], 0, -1)`), Keys: []string{"mortise:turns:{job}"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range v.Len() {
				entries = append(entries, v.At(i).Str())
			}
			return entries
		}

		first := request()
		w := &newContest(first).w
		c.join(k.place, w, false)
		first.stand(w)
		synctest.Wait() // until the client listens
		if !first.stand(w) {
			t.Fatal("the only waiter is not the head")
		}
		if got, err := first.attempt(t.Context()); err != errNoHold {
			t.Fatalf("the attempt gave %v, %v, want a refusal", got, err)
		}
		if got := turns(); len(got) != 1 || got[0] != first.turn {
			t.Fatalf("the turns are %q, want %q", got, first.turn)
		}

		second := request()
		front := &newContest(second).w
		c.join(k.place, front, true)
		if !second.stand(front) || second.turn == first.turn {
			t.Errorf("the one in front asks with the id %q, and the one behind with %q; want others", second.turn, first.turn)
		}
		c.called(k.place, first.turn+" 1") // a late grant
		var seen view
		if c.see(front, &seen); seen.position == granted {
			t.Error("the one in front has what was given to the one behind")
		}
		first.answered(true)
		synctest.Wait()
		if got := turns(); len(got) != 0 {
			t.Errorf("the turns are %q after the refusal, want none", got)
		}
		c.leave(k.place, front)
		c.leave(k.place, w)
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
