package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestElectionSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		e, rival := c.Election("job"), other.Election("job")
		number := int64(0)
		for _, lost := range losses {
			lost.Set(f, "election_campaign")
			number++
			term, ctx := mustLead(t, e, t.Context(), "here")
			if term.Token() != number {
				t.Errorf("with %v the term is %d, want %d", lost, term.Token(), number)
			}
			lost.Set(f, "election_proclaim")
			if err := term.Proclaim(t.Context(), "there"); err != nil {
				t.Errorf("Proclaim with %v: %v", lost, err)
			}
			lost.Set(f, "election_read")
			wantLeader(t, e, "there", number)
			lost.Set(f, "lock_renew")
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Fatalf("lost with %v of a renewal: %v", lost, context.Cause(ctx))
			}
			lost.Set(f, "election_resign")
			if err := term.Resign(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
				t.Errorf("Resign with %v: %v, want nil or ErrUnknownOutcome", lost, err)
			}
			f.Set(nil, nil)
			wantLeader(t, rival, "", 0)
			number++
			term, _ = mustLead(t, rival, t.Context(), "")
			if term.Token() != number {
				t.Errorf("the term is %d, want %d", term.Token(), number)
			}
			lost.Set(f, "election_resign")
			if l, err := e.Depose(t.Context()); (err != nil && !errors.Is(err, mortise.ErrUnknownOutcome)) || (err == nil && l.Term != number) {
				t.Errorf("Depose with %v: %+v, %v, want the term %d or ErrUnknownOutcome", lost, l, err, number)
			}
			f.Set(nil, nil)
			if err := term.Resign(); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("Resign of a deposed leader: %v, want ErrLost", err)
			}
		}
		wantEmpty(t, s)
	})
}

// A candidate gives up while Redis has not answered: no term must stay behind.
func TestElectionGivesUpWithoutLeavingATerm(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		f.Set(nil, hang) // it runs, but its answer does not come
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, after, err := c.Election("job").Campaign(ctx, "ghost")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond || after != ctx {
			t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
		}
		f.Set(nil, nil)
		term, _ := mustLead(t, other.Election("job"), t.Context(), "")
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("a term nobody wants stayed for %v", d)
		}
		mustResign(t, term)
		wantEmpty(t, s)
	})
}

// A change whose reply was lost is made again; the first copy, delivered after
// later changes, does not undo them.
func TestProclaimIsNotUndoneByALateCopy(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		raw := s.Driver()
		defer raw.Close()
		var late sync.WaitGroup
		delayed := 0
		c := mortise.New(&hook{Driver: s.Driver(), eval: func(_ context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != "election_proclaim" || delayed == 2 {
				return driver.Value{}, nil, false
			}
			delayed++
			late.Go(func() {
				time.Sleep(time.Minute)
				_, _ = raw.Eval(context.Background(), call)
			})
			return driver.Value{}, errCut, true
		}}, nil)
		defer c.Close()
		e := c.Election("job")
		term, _ := mustLead(t, e, t.Context(), "first")
		for _, value := range []string{"second", "third"} {
			if err := term.Proclaim(t.Context(), value); err != nil {
				t.Error(err)
			}
		}
		late.Wait()
		if delayed != 2 {
			t.Fatalf("%d copies were late, want 2", delayed)
		}
		wantLeader(t, e, "third", 1)
		mustResign(t, term)
	})
}

func TestProclaimWaitsForItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		e := c.Election("job")
		term, _ := mustLead(t, e, t.Context(), "first")
		f.Set(func(ctx context.Context, name string) error {
			if name == "election_proclaim" {
				return hang(ctx, name)
			}
			return nil
		}, nil)
		slow, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- term.Proclaim(slow, "slow") }()
		synctest.Wait()
		quick, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := term.Proclaim(quick, "quick"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("behind another one: %v after %v, want the deadline's error on time", err, time.Since(start))
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a change that hangs: %v, want the deadline's error", err)
		}
		f.Set(nil, nil)
		if err := term.Proclaim(t.Context(), "last"); err != nil {
			t.Error(err)
		}
		wantLeader(t, e, "last", 1)
		go func() { ended <- term.Proclaim(t.Context(), "x") }()
		_ = c.Close()
		if err := <-ended; err != nil && !errors.Is(err, mortise.ErrClosed) && !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("Proclaim while the client is closed: %v", err)
		}
	})
}
