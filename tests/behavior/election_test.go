package behavior

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// wantLeader checks the leader: a value and a term, or none if that is 0.
func wantLeader(t *testing.T, e *mortise.Election, value string, term int64) {
	t.Helper()
	l, err := e.Leader(t.Context())
	if term == 0 {
		if !errors.Is(err, mortise.ErrNoLeader) {
			t.Errorf("the leader is %+v, %v, want ErrNoLeader", l, err)
		}
		return
	}
	if err != nil || l.Value != value || l.Term != term || l.Owner == "" || l.TTL <= 0 {
		t.Errorf("the leader is %+v, %v, want %q in term %d", l, err, value, term)
	}
}

// wantLostTerm checks that a term was lost, and why.
func wantLostTerm(t *testing.T, term *mortise.Term, ctx context.Context, reason mortise.LostReason) {
	t.Helper()
	var lost *mortise.LostError
	if ctx.Err() == nil || !errors.As(context.Cause(ctx), &lost) || lost.Reason != reason || term.Valid() {
		t.Errorf("the cause is %v, want ErrLost because %s; valid: %v", context.Cause(ctx), reason, term.Valid())
	}
	if err := term.Proclaim(t.Context(), "x"); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Proclaim in a lost term: %v, want ErrLost", err)
	}
	if err := term.Resign(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Resign of a lost term: %v, want ErrLost", err)
	}
	if err := term.Resign(); !errors.Is(err, mortise.ErrReleased) {
		t.Errorf("second Resign: %v, want ErrReleased", err)
	}
}

func TestElectionHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var elections []*mortise.Election
		for range 3 {
			c, _ := open(t, s, nil)
			elections = append(elections, c.Election("job"))
		}
		wantLeader(t, elections[2], "", 0)
		first, ctx := mustLead(t, elections[0], t.Context(), "a")
		wantLeader(t, elections[2], "a", 1)
		got := make(chan *mortise.Term, 1)
		go func() {
			term, _, err := elections[1].Campaign(t.Context(), "b")
			if err != nil {
				t.Error(err)
			}
			got <- term
		}()
		time.Sleep(time.Minute) // renewed
		if ctx.Err() != nil || !first.Valid() {
			t.Fatalf("the first term was lost: %v", context.Cause(ctx))
		}
		wantLeader(t, elections[2], "a", 1)
		start := time.Now()
		mustResign(t, first)
		second := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("the next one was elected after %v, want at once", d)
		}
		if !errors.Is(context.Cause(ctx), mortise.ErrReleased) {
			t.Errorf("the cause of the first term's context is %v, want ErrReleased", context.Cause(ctx))
		}
		wantLeader(t, elections[2], "b", 2)
		if second.Token() != 2 || first.Token() != 1 || second.Owner() == first.Owner() {
			t.Errorf("the terms are %d of %s and %d of %s", first.Token(), first.Owner(), second.Token(), second.Owner())
		}
		mustResign(t, second)
		if err := second.Resign(); !errors.Is(err, mortise.ErrReleased) {
			t.Errorf("second Resign: %v, want ErrReleased", err)
		}
		if err := second.Proclaim(t.Context(), "x"); !errors.Is(err, mortise.ErrReleased) {
			t.Errorf("Proclaim after Resign: %v, want ErrReleased", err)
		}
		wantLeader(t, elections[2], "", 0)
		wantEmpty(t, s)
	})
}

// However a term ends, the next one has a higher number, and the context of the
// old one has ended by then, unless it was ended by force elsewhere.
func TestElectionAfterEachEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{TTL: 9 * time.Second})
		other, _ := open(t, s, nil)
		e, rival := c.Election("job"), other.Election("job")
		number := int64(0)
		next := func() {
			t.Helper()
			number++
			term, _ := mustLead(t, rival, t.Context(), "rival")
			if term.Token() != number {
				t.Errorf("the term is %d, want %d", term.Token(), number)
			}
			mustResign(t, term)
		}
		for range 3 {
			number++
			term, ctx := mustLead(t, e, t.Context(), "me") // the link stalls
			f.Set(hang, nil)
			next()
			f.Set(nil, nil)
			wantLostTerm(t, term, ctx, mortise.LostUnreachable)

			number++
			term, ctx = mustLead(t, e.With(mortise.LockOptions{MaxHold: 5 * time.Second}), t.Context(), "me") // expires
			next()
			wantLostTerm(t, term, ctx, mortise.LostExpired)

			number++
			term, ctx = mustLead(t, e, t.Context(), "me") // deposed by this client
			if l, err := e.Depose(t.Context()); err != nil || l.Owner != term.Owner() || l.Value != "me" || l.Term != number {
				t.Errorf("Depose: %+v, %v, want the term %d of %s", l, err, number, term.Owner())
			}
			wantLostTerm(t, term, ctx, mortise.LostForced)
			next()

			number++
			term, ctx = mustLead(t, e, t.Context(), "me") // by another one
			if _, err := rival.Depose(t.Context()); err != nil {
				t.Error(err)
			}
			next()
			time.Sleep(3*time.Second + time.Millisecond) // the next renewal
			wantLostTerm(t, term, ctx, mortise.LostForced)

			number++
			term, ctx = mustLead(t, e, t.Context(), "me") // and there is another leader
			if _, err := rival.Depose(t.Context()); err != nil {
				t.Error(err)
			}
			number++
			usurper, _ := mustLead(t, rival, t.Context(), "usurper")
			time.Sleep(3*time.Second + time.Millisecond) // the next renewal
			wantLostTerm(t, term, ctx, mortise.LostTaken)
			wantLeader(t, e, "usurper", number)
			mustResign(t, usurper)
		}
		if _, err := e.Depose(t.Context()); !errors.Is(err, mortise.ErrNoLeader) {
			t.Errorf("Depose of nobody: %v, want ErrNoLeader", err)
		}
		wantEmpty(t, s)
	})
}

func TestElectionIsInOrderInAProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		e := c.Election("job")
		first, _ := mustLead(t, e, t.Context(), "")
		var order []int
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				term, _, err := e.Campaign(t.Context(), "")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // protected by the term
				if err := term.Resign(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		mustResign(t, first)
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("elected in the order %v", order)
		}
	})
}

// A resignation makes every client ask once, however many campaign in it, and
// nobody else's candidates are woken by an election.
func TestElectionMakesNoHerd(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const clients, each = 8, 50
		leader, _ := open(t, s, nil)
		term, _ := mustLead(t, leader.Election("job"), t.Context(), "")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var asked []*faults
		elected := make(chan *mortise.Term, 1)
		for range clients {
			c, f := open(t, s, nil)
			asked = append(asked, f)
			for range each {
				all.Go(func() {
					if term, _, err := c.Election("job").Campaign(ctx, ""); err == nil {
						elected <- term
					} else if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		total := func() (n int) {
			for _, f := range asked {
				n += f.Count("election_campaign")
			}
			return n
		}
		if n, most := total(), clients*(10+3); n > most {
			t.Errorf("%d attempts in 10s, want %d at most: one a second by each client", n, most)
		}
		// The polls of 100 ms are the rest.
		before := total()
		mustResign(t, term)
		second := <-elected
		synctest.Wait()
		if n := total() - before; n > clients {
			t.Errorf("a resignation caused %d attempts, want one by each of %d clients", n, clients)
		}
		cancel()
		all.Wait()
		mustResign(t, second)
	})
}

func TestElectionWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		for range 5 {
			term, _ := mustLead(t, other.Election("job"), t.Context(), "")
			got := make(chan *mortise.Term)
			go func() {
				term, _, err := c.Election("job").Campaign(t.Context(), "")
				if err != nil {
					t.Error(err)
				}
				got <- term
			}()
			time.Sleep(5 * time.Second)
			start := time.Now()
			mustResign(t, term)
			next := <-got
			if d := time.Since(start); d > 1100*time.Millisecond {
				t.Errorf("without messages a candidate noticed the resignation after %v, want about a second at most", d)
			}
			mustResign(t, next)
		}
	})
}

func TestElectionEndsItsWaits(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *mortise.Client, cancel func()) error{
		"with the context": func(_ *mortise.Client, cancel func()) error { cancel(); return context.Canceled },
		"with the client":  func(c *mortise.Client, _ func()) error { _ = c.Close(); return mortise.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				block, _ := mustLead(t, other.Election("job"), t.Context(), "")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				errs := make(chan error)
				for range 10 {
					go func() {
						_, _, err := c.Election("job").Campaign(ctx, "")
						errs <- err
					}()
					go func() {
						var last error
						for _, err := range c.Election("job").Observe(ctx) {
							last = err
						}
						errs <- last
					}()
				}
				time.Sleep(10 * time.Second)
				start := time.Now()
				want := end(c, cancel)
				for range 20 {
					if err := <-errs; !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the waits ended after %v, want 0", d)
				}
				mustResign(t, block)
				wantEmpty(t, s)
			})
		})
	}
}

func TestElectionAfterALeaderDied(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		mustLead(t, dead.Election("job"), t.Context(), "dead")
		if err := dead.Close(); err != nil { // abandons the term, as a crash does
			t.Fatal(err)
		}
		c, _ := open(t, s, nil)
		start := time.Now()
		term, _ := mustLead(t, c.Election("job"), t.Context(), "")
		if d := time.Since(start); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("the next one was elected after %v, want 7s", d)
		}
		mustResign(t, term)
	})
}

// An owner leads once. Other callers with that owner are told, even if they wait.
func TestElectionOfAnOwnerThatLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		block, _ := mustLead(t, other.Election("job"), t.Context(), "")
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := c.Election("job").Campaign(owner, "")
				errs <- err
			}()
		}
		time.Sleep(3 * time.Second)
		mustResign(t, block)
		a, b := <-errs, <-errs
		if a == nil {
			a, b = b, a
		}
		if !errors.Is(a, mortise.ErrReentry) || b != nil {
			t.Errorf("two candidates of one owner: %v and %v, want ErrReentry for one", a, b)
		}
		if _, _, err := c.Election("job").With(mortise.LockOptions{}).Campaign(owner, ""); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("once more: %v, want ErrReentry", err)
		}
	})
}

func TestElectionAndOtherKindsRefuseEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		e := c.Election("job")
		term, _ := mustLead(t, e, t.Context(), "v")
		for what, err := range map[string]error{
			"Lock":           refusal(c.Lock("job").TryLock(t.Context())),
			"RWLock's write": refusal(c.RWLock("job").Write().TryLock(t.Context())),
			"RWLock's read":  refusal(c.RWLock("job").Read().TryLock(t.Context())),
		} {
			if !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("%s with the name of an election: %v, want ErrWrongKind", what, err)
			}
		}
		if _, err := c.Lock("job").ForceUnlock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("ForceUnlock of an election: %v, want ErrWrongKind", err)
		}
		state, err := c.Lock("job").Inspect(t.Context())
		if err != nil || state.Kind != mortise.KindElection || len(state.Holders) != 1 || state.Holders[0].Owner != term.Owner() {
			t.Errorf("Inspect: %+v, %v, want an election that %s leads", state, err, term.Owner())
		}
		wantLeader(t, e, "v", 1)
		mustResign(t, term)

		for what, put := range map[string][]string{
			"lock":    {"HSET", "job", "8ac3f8e1-55bb-4ba3-9d3c-2f1a7c7f0001:1", "1"},
			"rwlock":  {"HSET", "job", "mode", "read", "8ac3f8e1-55bb-4ba3-9d3c-2f1a7c7f0001:1", "1"},
			"string":  {"SET", "job", "5"},
			"list":    {"RPUSH", "job", "a"},
			"damaged": {"HSET", "job", "mode", "election", "term", "1"},
		} {
			do(t, s, put...)
			if _, _, err := e.Campaign(t.Context(), ""); !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("Campaign on a %s: %v, want ErrWrongKind", what, err)
			}
			if _, err := e.Leader(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("Leader of a %s: %v, want ErrWrongKind", what, err)
			}
			if _, err := e.Depose(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("Depose on a %s: %v, want ErrWrongKind", what, err)
			}
			for _, err := range e.Observe(t.Context()) {
				if !errors.Is(err, mortise.ErrWrongKind) {
					t.Errorf("Observe on a %s: %v, want ErrWrongKind", what, err)
				}
			}
			do(t, s, "DEL", "job")
		}
		if n := f.Count("election_campaign"); n != 6 {
			t.Errorf("%d attempts, want one each", n)
		}
	})
}

// refusal returns the error of a lock's methods.
func refusal(_ *mortise.Hold, _ context.Context, err error) error { return err }

func TestElectionRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, e := range []*mortise.Election{
			c.Election(""), c.Election("a\x00b"), c.Election("{open"), c.Election("mortise:x"), c.Election(strings.Repeat("x", 513)),
			c.Election("job").With(mortise.LockOptions{MaxHold: -1}), c.Election("job").With(mortise.LockOptions{Margin: time.Hour}),
		} {
			if _, _, err := e.Campaign(t.Context(), ""); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%.20q: %v, want ErrInvalid", e.Name(), err)
			}
		}
		if _, _, err := c.Election("job").Campaign(t.Context(), strings.Repeat("x", 64<<10+1)); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("a long value: %v, want ErrInvalid", err)
		}
		for _, err := range c.Election("").Observe(t.Context()) {
			if !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("Observe: %v, want ErrInvalid", err)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent for bad input, want 0", n)
		}
		longest := strings.Repeat("\x00", 64<<10)
		term, _ := mustLead(t, c.Election("job"), t.Context(), longest)
		wantLeader(t, c.Election("job"), longest, 1)
		if err := term.Proclaim(t.Context(), longest+"x"); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("Proclaim of a long value: %v, want ErrInvalid", err)
		}
		mustResign(t, term)
	})
}
