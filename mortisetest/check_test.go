package mortisetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
)

// script is a history made by hand: what happens at which second.
type script struct {
	h  *History
	at map[int][]func()
	qs map[string]*held

	owner context.Context
}

// asOne is a context that carries the same owner for every caller.
func (s *script) asOne() context.Context { return s.owner }

// held is a request of a script.
type held struct {
	q      *Claim
	cancel context.CancelCauseFunc
	ctx    context.Context
	begin  func()
	end    func(error)
}

func (s *script) on(second int, f func()) { s.at[second] = append(s.at[second], f) }

// play runs a script in virtual time.
func play(t *testing.T, write func(s *script)) (err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := &script{h: NewHistory(), at: map[int][]func(){}, qs: map[string]*held{}, owner: WithOwner(context.Background())}
		s.h.Lease = 5 * time.Second
		write(s)
		for second := range 60 {
			for _, f := range s.at[second] {
				f()
			}
			time.Sleep(time.Second)
		}
		err = s.h.Err()
	})
	return err
}

// ask makes a request at a time; the client is the part of id before a slash.
func (s *script) ask(second int, id string, o Object) {
	s.askAs(second, id, o, func() context.Context { return context.Background() })
}

func (s *script) askAs(second int, id string, o Object, ctx func() context.Context) {
	s.on(second, func() {
		client, _, _ := strings.Cut(id, "/")
		s.qs[id] = &held{q: s.h.Claim(ctx(), client, o, true)}
	})
}

func (s *script) grant(second int, id string, token int64) {
	s.on(second, func() {
		x := s.qs[id]
		ctx, cancel := context.WithCancelCause(context.Background())
		x.cancel = cancel
		x.ctx, x.begin, x.end = x.q.Granted(ctx, token)
	})
}

func (s *script) refuse(second int, id string, err error) {
	s.on(second, func() { s.qs[id].q.Refused(err) })
}

func (s *script) free(second int, id string) {
	s.on(second, func() { s.qs[id].begin(); s.qs[id].end(nil) })
}

func (s *script) lose(second int, id string) {
	s.on(second, func() { s.qs[id].cancel(mortise.ErrLost) })
}

// has is a hold that is asked for, granted and released.
func (s *script) has(id string, o Object, asked, from, to int, token int64) {
	s.ask(asked, id, o)
	s.grant(from, id, token)
	s.free(to, id)
}

// did is a call.
func (s *script) did(from, to int, family, op string, n, got int, err error) {
	var c *call
	s.on(from, func() { c = s.h.call(fmt.Sprint(op, " ", from), family, "x", op, n); c.parties = 3 })
	s.on(to, func() { s.h.returned(c, got, err) })
}

var (
	lockX   = Object{Sort: Exclusive, Name: "x", Kind: "Lock", Queue: OfClient}
	spinX   = Object{Sort: Exclusive, Name: "x", Kind: "SpinLock"}
	lockY   = Object{Sort: Exclusive, Name: "y", Kind: "Lock"}
	fairX   = Object{Sort: Exclusive, Name: "x", Kind: "FairLock", Queue: Fair}
	fencedX = Object{Sort: Exclusive, Name: "x", Kind: "FencedLock", Tokens: true}
	readX   = Object{Sort: Reading, Name: "x"}
	writeX  = Object{Sort: Writing, Name: "x"}
	termX   = Object{Sort: Leading, Name: "x", Tokens: true}
	ab      = Object{Sort: Group, Name: "x", Values: []string{"a", "b"}}
	bc      = Object{Sort: Group, Name: "x", Values: []string{"b", "c"}}
	cd      = Object{Sort: Group, Name: "x", Values: []string{"c", "d"}}
	two     = Object{Sort: Permits, Name: "x", Permits: 2, Queue: OfClient}
)

// check is a history, and what its story must contain; it is empty if all is well.
type check struct {
	name  string
	write func(s *script)
	want  string // in the story; empty if the history is right
}

var checks = []check{
	{"one after the other", func(s *script) { s.has("a", lockX, 0, 1, 5, 0); s.has("b", lockX, 0, 5, 9, 0) }, ""},
	{"two at once", func(s *script) { s.has("a", lockX, 0, 1, 5, 0); s.has("b", lockX, 0, 4, 9, 0) }, "both have it from 4.000s to 5.000s"},
	{"two kinds at once", func(s *script) { s.has("a", lockX, 0, 1, 5, 0); s.has("b", spinX, 0, 4, 9, 0) }, `SpinLock "x"`},
	{"two names at once", func(s *script) { s.has("a", lockX, 0, 1, 5, 0); s.has("b", lockY, 0, 4, 9, 0) }, ""},
	{"what does not matter is left out", func(s *script) {
		for i := range 10 {
			s.has(fmt.Sprint("c", i), lockX, 2*i, 2*i+1, 2*i+2, 0)
		}
		s.has("b", lockX, 0, 4, 5, 0)
		s.has("d", lockX, 30, 31, 33, 0)
	}, "than it admits\n\tb, as owner b#"},
	{"re-entry", func(s *script) {
		s.has("a/1", lockX, 0, 1, 9, 0)
		s.askAs(2, "a/2", lockX, func() context.Context { return s.qs["a/1"].ctx })
		s.grant(3, "a/2", 0)
		s.free(4, "a/2")
		s.has("b", lockX, 0, 9, 10, 0)
	}, ""},
	{"re-entry, and the inner release frees it", func(s *script) {
		s.has("a/1", lockX, 0, 1, 9, 0)
		s.askAs(2, "a/2", lockX, func() context.Context { return s.qs["a/1"].ctx })
		s.grant(3, "a/2", 0)
		s.free(4, "a/2")
		s.has("b", lockX, 0, 5, 10, 0)
	}, "both have it from 5.000s to 9.000s"},
	{"one owner of two clients", func(s *script) {
		s.askAs(0, "a", lockX, s.asOne)
		s.grant(1, "a", 0)
		s.askAs(2, "b", lockX, s.asOne)
		s.grant(3, "b", 0)
		s.free(5, "a")
		s.free(6, "b")
	}, "both have it from 3.000s to 5.000s"},
	{"one owner of two clients reads and writes", func(s *script) {
		s.askAs(0, "a", writeX, s.asOne)
		s.grant(1, "a", 0)
		s.askAs(2, "b", readX, s.asOne)
		s.grant(3, "b", 0)
		s.free(5, "a")
		s.free(6, "b")
	}, "both have it from 3.000s to 5.000s"},
	{"one owner of two clients has two groups", func(s *script) {
		s.askAs(0, "a", ab, s.asOne)
		s.grant(1, "a", 0)
		s.askAs(2, "b", bc, s.asOne)
		s.grant(3, "b", 0)
		s.free(5, "a")
		s.free(6, "b")
	}, "both have it from 3.000s to 5.000s"},
	{"one owner of two clients is refused", func(s *script) {
		s.askAs(0, "a", lockX, s.asOne)
		s.grant(1, "a", 0)
		s.askAs(2, "b", lockX, s.asOne)
		s.refuse(2, "b", mortise.ErrLocked)
		s.askAs(3, "a/2", lockX, s.asOne)
		s.grant(3, "a/2", 0)
		s.free(4, "a/2")
		s.free(5, "a")
	}, ""},
	{"lost in time", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.lose(4, "a")
		s.has("b", lockX, 0, 4, 9, 0)
	}, ""},
	{"lost too late", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.lose(5, "a")
		s.has("b", lockX, 0, 4, 9, 0)
	}, "loses it at 5.000s"},
	{"lost too late, but Redis forgot", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.on(3, func() { s.h.Forgot("x") })
		s.lose(5, "a")
		s.has("b", lockX, 0, 4, 9, 0)
	}, ""},
	{"a request in doubt holds nothing", func(s *script) {
		s.ask(0, "a", lockX)
		s.refuse(2, "a", mortise.ErrUnknownOutcome)
		s.has("b", lockX, 1, 1, 3, 0)
	}, ""},
	{"readers together", func(s *script) {
		s.has("a", readX, 0, 1, 5, 0)
		s.has("b", readX, 0, 4, 9, 0)
		s.has("c", writeX, 0, 9, 10, 0)
	}, ""},
	{"a reader and a writer", func(s *script) { s.has("a", readX, 0, 1, 5, 0); s.has("b", writeX, 0, 4, 9, 0) }, "both have it from 4.000s to 5.000s"},
	{"a writer reads", func(s *script) {
		s.has("a/1", writeX, 0, 1, 5, 0)
		s.askAs(2, "a/2", readX, func() context.Context { return s.qs["a/1"].ctx })
		s.grant(3, "a/2", 0)
		s.free(9, "a/2")
		s.has("b", readX, 0, 6, 7, 0)
	}, ""},
	{"groups apart", func(s *script) { s.has("a", ab, 0, 1, 5, 0); s.has("b", cd, 0, 4, 9, 0) }, ""},
	{"groups that overlap", func(s *script) { s.has("a", ab, 0, 1, 5, 0); s.has("b", bc, 0, 4, 9, 0) }, `"x" with b, c`},
	{"permits", func(s *script) {
		s.on(0, func() { s.h.SetPermits("x", 4) })
		s.has("a", two, 0, 1, 5, 0)
		s.has("b", two, 0, 4, 9, 0)
		s.has("c", two, 0, 5, 9, 0)
	}, ""},
	{"too many permits", func(s *script) {
		s.on(0, func() { s.h.SetPermits("x", 4) })
		s.has("a", two, 0, 1, 5, 0)
		s.has("b", two, 0, 2, 9, 0)
		s.has("c", two, 0, 4, 9, 0)
	}, "all 3 have it from 4.000s to 5.000s"},
	{"permits of one client out of order", func(s *script) {
		s.has("a/1", two, 0, 5, 9, 0)
		s.has("a/2", two, 1, 3, 4, 0)
	}, `permits "x" serves`},
	{"fair", func(s *script) {
		s.has("a", fairX, 0, 1, 5, 0)
		s.has("b", fairX, 2, 5, 6, 0)
		s.ask(3, "c", fairX)
		s.refuse(4, "c", context.Canceled)
		s.has("d", fairX, 4, 6, 7, 0)
	}, ""},
	{"unfair", func(s *script) {
		s.has("a", fairX, 0, 1, 5, 0)
		s.has("b", fairX, 2, 7, 8, 0)
		s.has("c", fairX, 3, 5, 6, 0)
	}, `FairLock "x" serves requests in another order`},
	{"unfair, but disturbed", func(s *script) {
		s.has("a", fairX, 0, 1, 5, 0)
		s.on(3, func() {
			calm := s.h.Disturbed("b")
			s.on(4, calm)
		})
		s.has("b", fairX, 2, 7, 8, 0)
		s.has("c", fairX, 3, 5, 6, 0)
	}, ""},
	{"a Lock is fair to goroutines of one client only", func(s *script) {
		s.has("b", lockX, 2, 7, 8, 0)
		s.has("c", lockX, 3, 5, 6, 0)
	}, ""},
	{"goroutines of one client out of order", func(s *script) {
		s.has("b/1", lockX, 2, 7, 8, 0)
		s.has("b/2", lockX, 3, 5, 6, 0)
	}, "all of them by b"},
	{"tokens rise", func(s *script) { s.has("a", fencedX, 0, 1, 2, 3); s.has("b", fencedX, 0, 3, 4, 4) }, ""},
	{"a token twice", func(s *script) { s.has("a", fencedX, 0, 1, 2, 3); s.has("b", fencedX, 2, 3, 4, 3) }, "do not rise"},
	{"tokens fall", func(s *script) { s.has("a", fencedX, 0, 1, 2, 3); s.has("b", fencedX, 2, 3, 4, 2) }, "with the token 2"},
	{"tokens fall where Redis forgot", func(s *script) {
		s.has("a", fencedX, 0, 1, 2, 3)
		s.on(2, func() { s.h.Forgot() })
		s.has("b", fencedX, 3, 4, 5, 2)
	}, ""},
	{"refused for a reason", func(s *script) {
		s.has("a", lockX, 0, 1, 3, 0)
		s.ask(2, "b", lockX)
		s.refuse(2, "b", mortise.ErrLocked)
	}, ""},
	{"refused without a reason", func(s *script) {
		s.has("a", lockX, 0, 1, 3, 0)
		s.has("c", lockY, 0, 1, 9, 0)
		s.ask(4, "b", lockX)
		s.refuse(4, "b", mortise.ErrLocked)
	}, "nobody has it"},
	{"refused for a dead client's lease", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.lose(4, "a")
		s.ask(8, "b", lockX)
		s.refuse(8, "b", mortise.ErrLocked)
	}, ""},
	{"refused for a hold that was left behind", func(s *script) {
		lasts := true
		s.ask(0, "a", lockX)
		s.on(1, func() { s.qs["a"].q.r.valid = func() bool { return lasts } })
		s.grant(1, "a", 0)
		s.on(2, func() { s.qs["a"].cancel(context.Canceled) })
		s.ask(20, "b", lockX)
		s.refuse(20, "b", mortise.ErrLocked)
		s.on(30, func() { lasts = false })
	}, ""},
	{"terms overlap", func(s *script) { s.has("a", termX, 0, 1, 5, 1); s.has("b", termX, 0, 4, 9, 2) }, `term "x": more holders`},
	{"terms go back, and nobody observes", func(s *script) {
		s.has("a", termX, 0, 1, 2, 1)
		s.has("b", termX, 3, 4, 5, 7)
		s.has("c", termX, 6, 7, 8, 3)
	}, "cannot have been\n\tb, as owner"},
	{"a leader is seen", func(s *script) {
		s.has("a", termX, 0, 1, 5, 7)
		s.did(2, 3, "term", "Leader", 0, 7, nil)
		s.did(6, 7, "term", "Leader", 0, 0, nil)
	}, ""},
	{"nobody is seen, and there is a leader", func(s *script) {
		s.has("a", termX, 0, 1, 5, 7)
		s.did(2, 3, "term", "Leader", 0, 0, nil)
	}, "and sees nobody"},
	{"a leader is seen that has resigned", func(s *script) {
		s.has("a", termX, 0, 1, 5, 7)
		s.did(6, 7, "term", "Leader", 0, 7, nil)
	}, "sees the term 7"},
	{"a leader is seen, and another leads", func(s *script) {
		s.campaign("a", "va", 0, 1, 10, 7)
		s.campaign("b", "vb", 0, 0, 0, 0)
		s.refuse(11, "b", context.Canceled)
		s.saw(2, 3, 8, "vb")
	}, `sees the term 8 with the value "vb"`},
	{"a leader is seen that never learns of it", func(s *script) {
		s.campaign("a", "va", 0, 1, 4, 7)
		s.campaign("b", "vb", 0, 0, 0, 0)
		s.saw(5, 6, 8, "vb")
		s.refuse(7, "b", mortise.ErrUnknownOutcome)
		s.saw(11, 12, 8, "vb")
		s.campaign("c", "vc", 8, 13, 14, 9)
	}, ""},
	{"a leader is seen that never learns of it, too late", func(s *script) {
		s.campaign("b", "vb", 0, 0, 0, 0)
		s.refuse(7, "b", mortise.ErrUnknownOutcome)
		s.saw(13, 14, 8, "vb")
	}, "sees the term 8"},
	{"a leader is seen before it stood", func(s *script) {
		s.saw(2, 3, 8, "vb")
		s.campaign("b", "vb", 4, 5, 6, 9)
	}, "sees the term 8"},
	{"a leader is seen in another term", func(s *script) {
		s.campaign("a", "va", 0, 1, 10, 7)
		s.saw(2, 3, 99, "va")
	}, "sees the term 99"},
	{"a leader that has resigned is seen in another term", func(s *script) {
		s.campaign("a", "va", 0, 1, 5, 7)
		s.saw(6, 7, 9, "va")
	}, "sees the term 9"},
	{"a leader that has resigned is seen in the term of a late copy of its request", func(s *script) {
		s.on(0, func() {
			calm := s.h.Disturbed("a")
			s.on(4, calm)
		})
		s.campaign("a", "va", 0, 3, 4, 7)
		s.saw(5, 6, 9, "va")
	}, ""},
	{"a leader is seen with another value", func(s *script) {
		s.campaign("a", "va", 0, 1, 10, 7)
		s.campaign("b", "vb", 0, 11, 12, 8)
		s.saw(2, 3, 7, "vb")
	}, `sees the term 7 with the value "vb"`},
	{"latch", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 9, "latch", "Wait", 0, 0, nil)
		s.did(3, 4, "latch", "CountDown", 1, 0, nil)
		s.did(5, 6, "latch", "Count", 0, 1, nil)
		s.did(7, 8, "latch", "CountDown", 1, 0, nil)
	}, ""},
	{"latch that opens early", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 6, "latch", "Wait", 0, 0, nil)
		s.did(3, 4, "latch", "CountDown", 1, 0, nil)
		s.did(7, 8, "latch", "CountDown", 1, 0, nil)
	}, "Wait 2 calls Wait"},
	{"latch that is never seen to open", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
		s.did(4, 5, "latch", "Wait", 0, 0, mortise.ErrMissing)
	}, "Wait 4 calls Wait"},
	{"latch that a waiter does not see open", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 9, "latch", "Wait", 0, 0, mortise.ErrMissing)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
	}, "Wait 2 calls Wait"},
	{"latch that is seen closed just before it opens", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 5, "latch", "Wait", 0, 0, mortise.ErrMissing)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
	}, ""},
	{"latch that was never set, and is closed", func(s *script) {
		s.did(4, 5, "latch", "Wait", 0, 0, mortise.ErrMissing)
	}, "Wait 4 calls Wait"},
	{"latch that a disturbed waiter does not see open", func(s *script) {
		s.on(4, func() {
			calm := s.h.Disturbed("Wait 2")
			s.on(7, calm)
		})
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 3, "latch", "CountDown", 1, 0, mortise.ErrUnknownOutcome)
		s.did(2, 9, "latch", "Wait", 0, 0, mortise.ErrMissing)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
	}, ""},
	{"latch that never lets pass", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 1000, "latch", "Wait", 0, 0, nil)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
	}, "which has not returned"},
	{"latch that did not let pass until its waiter gave up", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 9, "latch", "Wait", 0, 0, context.DeadlineExceeded)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
	}, "context deadline exceeded"},
	{"latch whose waiter gave up before it could learn of it", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(4, 9, "latch", "Wait", 0, 0, context.Canceled)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
		s.did(9, 30, "latch", "Wait", 0, 0, mortise.ErrUnreachable)
	}, ""},
	{"latch that may never have been counted down", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 3, "latch", "CountDown", 1, 0, mortise.ErrUnknownOutcome)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
		s.did(2, 1000, "latch", "Wait", 0, 0, nil)
	}, ""},
	{"latch that is set again while its waiter waits", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 1000, "latch", "Wait", 0, 0, nil)
		s.did(4, 5, "latch", "CountDown", 1, 0, nil)
		s.did(6, 7, "latch", "TrySetCount", 1, 1, nil)
	}, ""},
	{"latch that may have been counted down", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 6, "latch", "Wait", 0, 0, nil)
		s.did(3, 4, "latch", "CountDown", 1, 0, mortise.ErrUnknownOutcome)
		s.did(3, 4, "latch", "CountDown", 1, 0, nil)
	}, ""},
	{"semaphore", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Acquire", 2, 0, nil)
		s.did(4, 7, "semaphore", "Acquire", 2, 0, nil)
		s.did(6, 8, "semaphore", "Release", 2, 0, nil)
	}, ""},
	{"semaphore that gives too many", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Acquire", 2, 0, nil)
		s.did(4, 7, "semaphore", "Acquire", 2, 0, nil)
		s.did(8, 9, "semaphore", "Release", 2, 0, nil)
	}, "more permits are taken"},
	{"semaphore that has too many left", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Acquire", 2, 0, nil)
		s.did(4, 5, "semaphore", "Available", 0, 2, nil)
	}, "Available"},
	{"barrier", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.did(1, 3, "barrier", "Await", 0, 1, nil)
		s.did(2, 3, "barrier", "Await", 0, 2, nil)
	}, ""},
	{"barrier that is passed early", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.did(1, 3, "barrier", "Await", 0, 1, nil)
		s.did(4, 5, "barrier", "Await", 0, 2, nil)
	}, "passes the barrier"},
	{"barrier that gives a number twice", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.did(1, 3, "barrier", "Await", 0, 1, nil)
		s.did(2, 3, "barrier", "Await", 0, 1, nil)
	}, "number that another has"},
	{"barrier with a party that gave up as it opened", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.did(1, 3, "barrier", "Await", 0, 1, nil)
		s.did(2, 3, "barrier", "Await", 0, 0, errors.New("gave up"))
	}, ""},
	{"double barrier", func(s *script) { s.meet(3, 5, 6, 9) }, ""},
	{"double barrier that is entered early", func(s *script) { s.meet(1, 5, 6, 9) }, "enters the double barrier"},
	{"double barrier that is left early", func(s *script) { s.meet(3, 5, 6, 5) }, "have left and they have not"},
}

// campaign is a term with a value; without a token it is one that is not over.
func (s *script) campaign(id, value string, asked, from, to int, token int64) {
	s.ask(asked, id, termX)
	s.on(asked, func() { s.qs[id].q.r.value = value })
	if token != 0 {
		s.grant(from, id, token)
		s.free(to, id)
	}
}

// saw is what an observer sees.
func (s *script) saw(from, to, term int, value string) {
	var c *call
	s.on(from, func() { c = s.h.call("o", "term", "x", "Leader", 0) })
	s.on(to, func() { s.h.returned(c, term, nil); c.value = value })
}

// Each checker is shown a history that is right, and then one that differs in what it is for.
func TestCheckers(t *testing.T) { runChecks(t, checks) }

func runChecks(t *testing.T, checks []check) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			err := play(t, c.write)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the story is %v, want one with %q", err, c.want)
			case err != nil && testing.Verbose():
				t.Log(err)
			}
		})
	}
}

// meet has three parties arrive at 0, 1 and 2, return from Enter at entered, leave at 5 and
// then at last, and the first of them return from Leave at left.
func (s *script) meet(entered, leave, last, left int) {
	for i := range 3 {
		var e, l *call
		s.on(i, func() { e = s.h.call(fmt.Sprint("p", i), "double barrier", "x", "Enter", 0); e.parties = 3 })
		s.on(max(entered, i), func() { s.h.returned(e, 0, nil) })
		from, to := leave, left
		if i > 0 {
			from, to = last, 9
		}
		s.on(from, func() { l = s.h.call(e.client, "double barrier", "x", "Leave", 0); e.left = l })
		s.on(max(to, from), func() { s.h.returned(l, 0, nil) })
	}
}
