package mortisetest

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/mortise-go/mortise"
)

// Election is a [mortise.Election] whose calls, of one client, a history records. Give each
// campaign and each Proclaim a value of its own, so that they can be told apart.
type Election struct {
	h        *History
	client   string
	election *mortise.Election
}

// Election returns e as client uses it.
func (h *History) Election(client string, e *mortise.Election) *Election {
	return &Election{h, client, e}
}

// Term is a term of office that a history records.
type Term struct {
	*mortise.Term
	e     *Election
	begin func()
	end   func(err error)
	once  sync.Once
}

// Campaign calls the method of that name, and records it.
func (e *Election) Campaign(ctx context.Context, value string) (*Term, context.Context, error) {
	o := Object{Sort: Leading, Name: e.election.Name(), Kind: "Election", Queue: OfClient, Tokens: true}
	q := e.h.claim(ctx, holding{Object: o, client: e.client, waits: true, value: value})
	t, held, err := e.election.Campaign(ctx, value)
	if err != nil {
		q.Refused(err)
		return nil, held, err
	}
	q.knows(t)
	lctx, begin, end := q.Granted(held, t.Token())
	return &Term{Term: t, e: e, begin: begin, end: end}, lctx, nil
}

// Resign calls the method of that name, and records it.
func (t *Term) Resign() error {
	t.once.Do(t.begin)
	err := t.Term.Resign()
	if !errors.Is(err, mortise.ErrReleased) {
		t.end(err)
	}
	return err
}

// Proclaim calls the method of that name, and records it.
func (t *Term) Proclaim(ctx context.Context, value string) error {
	c := t.e.h.record(call{client: t.e.client, family: string(Leading), name: t.e.election.Name(), op: "Proclaim", n: int(t.Token()), value: value})
	err := t.Term.Proclaim(ctx, value)
	t.e.h.gaveUp(c, 0, err) // Redis may have run it, or may do so late
	return err
}

func (e *Election) call(op string, n int) *call {
	return e.h.call(e.client, string(Leading), e.election.Name(), op, n)
}

// Leader calls the method of that name, and records it.
func (e *Election) Leader(ctx context.Context) (mortise.Leader, error) {
	c := e.call("Leader", 0)
	l, err := e.election.Leader(ctx)
	e.saw(c, l, err)
	return l, err
}

// saw records what a call has seen.
func (e *Election) saw(c *call, l mortise.Leader, err error) {
	if errors.Is(err, mortise.ErrNoLeader) {
		l, err = mortise.Leader{}, nil
	}
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	c.value = l.Value
	e.h.ends(c, int(l.Term), err)
}

// Observe calls the method of that name, and records what it yields.
func (e *Election) Observe(ctx context.Context) iter.Seq2[mortise.Leader, error] {
	return func(yield func(mortise.Leader, error) bool) {
		c := e.call("Observe", 0)
		for l, err := range e.election.Observe(ctx) {
			e.saw(c, l, err)
			if !yield(l, err) {
				return
			}
			c = e.call("Observe", 0)
		}
	}
}
