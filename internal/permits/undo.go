package permits

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// takebacks holds the undo scripts of a client that Redis has not answered yet, by the name of the
// object.
type takebacks struct {
	mu sync.Mutex
	at map[string][]*takeback
}

// takeback is one of them. It may run in several goroutines at the same time.
type takeback struct {
	op func(ctx context.Context) error
}

func (s *takebacks) add(name string, t *takeback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = make(map[string][]*takeback)
	}
	s.at[name] = append(s.at[name], t)
}

// remove has no effect if t was removed before.
func (s *takebacks) remove(name string, t *takeback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.at[name]
	if i := slices.Index(all, t); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(s.at, name)
		return
	}
	s.at[name] = all
}

// first returns the oldest one for the name, or nil.
func (s *takebacks) first(name string) *takeback {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.at[name]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// TakeBack runs op, which takes back what a call has done that now fails, until Redis has
// given a definite answer, and for at most d after the first failure; or once if the client is
// closed. It blocks until then, so that nothing that the caller does next overtakes op, but no
// longer than d, nor than Config.UnlockFor; op then goes on in the background. The context of
// the call has no influence on it: most often that is what has ended.
func (o *Number) TakeBack(d time.Duration, op func(ctx context.Context) error) {
	c, t, done := o.Client(), &takeback{op}, make(chan struct{})
	o.of.takebacks.add(o.Key(), t)
	run := func(ctx context.Context) {
		_, _ = c.Call(ctx, d, op)
		o.of.takebacks.remove(o.Key(), t)
		close(done)
	}
	if !c.Background(run) {
		_ = op(c.Lingerer())
		o.of.takebacks.remove(o.Key(), t)
		return
	}
	bound := d
	if c.Config().UnlockFor > 0 {
		bound = min(bound, c.Config().UnlockFor)
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// TakenBack runs what TakeBack still runs in the background for the object, as [Number.Operate]
// does. A call that must not overtake that calls TakenBack first.
func (o *Number) TakenBack(ctx context.Context) error {
	pending := &o.of.takebacks
	for t := pending.first(o.Key()); t != nil; t = pending.first(o.Key()) {
		if err := o.Operate(ctx, func(ctx context.Context, _ script.Publish) error { return t.op(ctx) }); err != nil {
			return outcome.WhyEnded(ctx, nil, err)
		}
		pending.remove(o.Key(), t)
	}
	return nil
}
