package mortisetest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
)

// A history that watches a server learns of each fault that takes promises away, and of no other.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		fault             func(s *Server)
		forgot, disturbed int
		longer            time.Duration
	}{
		"a failover that forgets":         {func(s *Server) { s.FailOver(1) }, 1, 0, 0},
		"a failover that forgets nothing": {func(s *Server) { s.FailOver(0) }, 0, 1, 0},
		"a restart":                       {(*Server).Restart, 1, 0, 0},
		"an eviction":                     {func(s *Server) { s.Evict("job") }, 1, 0, 0},
		"an eviction of nothing":          {func(s *Server) { s.Evict("other") }, 0, 0, 0},
		"a jump forward":                  {func(s *Server) { s.Jump(time.Second) }, 1, 0, 0},
		"a jump back":                     {func(s *Server) { s.Jump(-time.Second) }, 0, 0, time.Second},
		"a refusal":                       {func(s *Server) { s.Refuse(Loading) }, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := NewServer(), NewHistory()
				defer s.Close()
				h.Watch(s)
				client := mortise.New(s.Link(), nil)
				defer client.Close()
				if _, _, err := h.Lock(t.Context(), "a", client.Lock("job")); err != nil {
					t.Fatal(err)
				}
				c.fault(s)
				s.Refuse("")
				if f, d, l := len(h.forgotten), len(h.disturbed), h.holdings[0].lease-h.Lease; f != c.forgot || d != c.disturbed || l != c.longer {
					t.Errorf("it knows of %d losses and %d disturbances, and what is left behind lasts %v longer; want %d, %d, %v", f, d, l, c.forgot, c.disturbed, c.longer)
				}
			})
		})
	}
}

var lapses = []check{
	{"Redis forgot, and the holder was never told", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.on(3, func() { s.h.Forgot("x") })
		s.has("b", lockX, 0, 4, 9, 0)
		s.free(12, "a")
	}, "both have it from 4.000s to 9.000s"},
	{"Redis forgot another name", func(s *script) {
		s.has("a", lockX, 0, 1, 5, 0)
		s.on(3, func() { s.h.Forgot("y") })
		s.has("b", lockX, 0, 4, 9, 0)
	}, "both have it"},
	{"Redis forgot before, and somebody has it nevertheless", func(s *script) {
		s.on(1, func() { s.h.Forgot() })
		s.has("a", lockX, 2, 2, 5, 0)
		s.has("b", lockX, 2, 4, 9, 0)
	}, "both have it"},
	{"Redis forgot twice during a request", func(s *script) {
		s.on(1, func() { s.h.Forgot() })
		s.on(3, func() { s.h.Forgot() })
		s.has("a", lockX, 0, 2, 5, 0)
		s.has("b", lockX, 0, 4, 9, 0)
	}, ""},
	{"Redis forgot once more while the hold was on its way back", func(s *script) {
		s.h.Lease = 3 * time.Second
		s.on(2, func() { s.h.Forgot() })
		s.has("a", lockX, 0, 3, 6, 0)
		s.on(4, func() { s.h.Forgot() })
		s.has("b", lockX, 5, 5, 9, 0)
	}, ""},
	{"Redis forgot twice, and the hold was back", func(s *script) {
		s.h.Lease = 3 * time.Second
		s.on(2, func() { s.h.Forgot() })
		s.has("a", lockX, 0, 3, 10, 0)
		s.on(4, func() { s.h.Forgot() })
		s.has("b", lockX, 5, 5, 9, 0)
	}, "both have it from 5.000s to 9.000s"},
	{"refused for what a failover has brought back", func(s *script) {
		s.has("a", lockX, 0, 1, 2, 0)
		s.on(3, func() { s.h.Forgot() })
		s.ask(7, "b", lockX)
		s.refuse(7, "b", mortise.ErrLocked)
	}, ""},
	{"refused for what a failover has brought back, for too long", func(s *script) {
		s.has("a", lockX, 0, 1, 2, 0)
		s.on(3, func() { s.h.Forgot() })
		s.ask(9, "b", lockX)
		s.refuse(9, "b", mortise.ErrLocked)
	}, "nobody has it"},
	{"refused for what a clock that was set back keeps", func(s *script) {
		s.ask(0, "a", lockX)
		s.grant(1, "a", 0)
		s.lose(4, "a")
		s.on(5, func() { s.h.lasts(3 * time.Second) })
		s.ask(11, "b", lockX)
		s.refuse(11, "b", mortise.ErrLocked)
	}, ""},
	{"unfair, but Redis forgot", func(s *script) {
		s.has("a", fairX, 0, 1, 4, 0)
		s.on(4, func() { s.h.Forgot("x") })
		s.has("b", fairX, 2, 7, 8, 0)
		s.has("c", fairX, 3, 5, 6, 0)
	}, ""},
	{"unfair after Redis forgot", func(s *script) {
		s.on(1, func() { s.h.Forgot("x") })
		s.has("b", fairX, 7, 12, 13, 0)
		s.has("c", fairX, 8, 10, 11, 0)
	}, "in another order"},
	{"tokens fall for a client that knows better", func(s *script) {
		s.has("a/1", fencedX, 0, 1, 2, 3)
		s.on(2, func() { s.h.Forgot() })
		s.has("b", fencedX, 3, 3, 4, 2)
		s.has("a/2", fencedX, 4, 4, 5, 3)
	}, "a client takes a token of \"x\" that went back"},
	{"latch that opens early before Redis forgets it", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 6, "latch", "Wait", 0, 0, nil)
		s.did(3, 4, "latch", "CountDown", 1, 0, nil)
		s.on(7, func() { s.h.Forgot("x") })
	}, "Wait 2 calls Wait"},
	{"latch that Redis has forgotten", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 2, 1, nil)
		s.did(2, 6, "latch", "Wait", 0, 0, nil)
		s.did(3, 4, "latch", "CountDown", 1, 0, nil)
		s.on(5, func() { s.h.Forgot("x") })
	}, ""},
	{"double barrier with a party of two rounds", func(s *script) {
		for i, times := range [][2]int{{0, 4}, {1, 2}, {1, 2}, {3, 4}, {3, 4}} {
			var c *call
			s.on(times[0], func() { c = s.h.call(fmt.Sprint("p", i), "double barrier", "x", "Enter", 0); c.parties = 3 })
			s.on(times[1], func() { s.h.returned(c, 0, nil) })
			if i == 1 || i == 2 { // those of the first round are cut off
				s.on(3, func() { c.dark = s.h.now() })
			}
		}
	}, "enters the double barrier"},
	{"double barrier that is entered early before Redis forgets it", func(s *script) { s.meet(1, 5, 6, 9); s.on(4, func() { s.h.Forgot() }) }, "enters the double barrier"},
	{"double barrier that Redis has forgotten", func(s *script) { s.meet(3, 5, 6, 5); s.on(4, func() { s.h.Forgot() }) }, ""},
	{"a value is seen while it is proclaimed", func(s *script) {
		s.campaign("a", "va", 0, 1, 30, 7)
		s.on(2, func() {
			s.h.record(call{client: "a", family: "term", name: "x", op: "Proclaim", n: 7, value: "vb"})
		})
		s.saw(3, 4, 7, "va")
		s.saw(5, 6, 7, "vb")
	}, ""},
	{"a leader is seen that has resigned, before Redis forgets", func(s *script) {
		s.campaign("a", "va", 0, 1, 5, 7)
		s.saw(6, 7, 7, "va")
		s.on(8, func() { s.h.Forgot("x") })
	}, "sees the term 7"},
	{"a leader is seen that has resigned, after Redis forgot", func(s *script) {
		s.campaign("a", "va", 0, 1, 5, 7)
		s.on(6, func() { s.h.Forgot("x") })
		s.saw(6, 7, 7, "va")
	}, ""},
	{"latch that Redis forgot while its waiters wait", func(s *script) {
		s.did(0, 1, "latch", "TrySetCount", 1, 1, nil)
		s.did(2, 1000, "latch", "Wait", 0, 0, nil)
		s.did(2, 3, "latch", "CountDown", 1, 0, nil)
		s.on(6, func() { s.h.Forgot() })
	}, ""},
	{"semaphore that gives too many before Redis forgets", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 1, 1, nil)
		s.did(2, 3, "semaphore", "Acquire", 2, 0, nil)
		s.on(4, func() { s.h.Forgot("x") })
	}, "more permits are taken"},
	{"barrier that is passed early before Redis forgets", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.on(4, func() { s.h.Forgot("x") })
	}, "passes the barrier"},
	{"barrier that is passed early because Redis forgot", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.on(2, func() { s.h.Forgot("x") })
	}, ""},
	{"what another name forgets", func(s *script) {
		s.did(0, 3, "barrier", "Await", 0, 0, nil)
		s.on(2, func() { s.h.Forgot("y") })
	}, "passes the barrier"},
	{"semaphore whose permits are drained and added", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Drain", 0, 3, nil)
		s.did(4, 5, "semaphore", "AddPermits", -1, 0, nil)
		s.did(6, 7, "semaphore", "Drain", 0, -1, nil)
		s.did(8, 9, "semaphore", "AddPermits", 2, 0, nil)
		s.did(10, 11, "semaphore", "Acquire", 2, 0, nil)
	}, ""},
	{"semaphore that a drain in doubt may have set to 0", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 0, 1, nil)
		s.did(2, 3, "semaphore", "AddPermits", -2, 0, nil)
		s.did(4, 5, "semaphore", "Drain", 0, 0, mortise.ErrUnknownOutcome)
		s.did(6, 7, "semaphore", "AddPermits", 2, 0, nil)
		s.did(8, 9, "semaphore", "Acquire", 2, 0, nil)
	}, ""},
	{"semaphore that a drain in doubt has given permits", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 1, 1, nil)
		s.did(2, 3, "semaphore", "Drain", 0, 0, mortise.ErrUnknownOutcome)
		s.did(4, 5, "semaphore", "Acquire", 2, 0, nil)
	}, "more permits are taken"},
	{"semaphore that drains more than it has", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Drain", 0, 4, nil)
	}, "more permits are taken"},
	{"semaphore that gives what is drained", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "Drain", 0, 2, nil)
		s.did(4, 5, "semaphore", "Acquire", 2, 0, nil)
	}, "more permits are taken"},
	{"semaphore that gives what is taken away", func(s *script) {
		s.did(0, 1, "semaphore", "TrySetPermits", 3, 1, nil)
		s.did(2, 3, "semaphore", "AddPermits", -2, 0, nil)
		s.did(4, 5, "semaphore", "Acquire", 2, 0, nil)
	}, "more permits are taken"},
}

// What Redis has forgotten takes promises away, and no others.
func TestCheckersWhereRedisForgets(t *testing.T) { runChecks(t, lapses) }
