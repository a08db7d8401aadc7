package fleet

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stage plays a scene that comes and goes, in rounds.
type stage struct {
	play   func(round context.Context, a *actor) error // until round ends, or others end the scene
	stays  time.Duration                               // a round
	actor  *actor
	wanted chan struct{} // closed if the scene is to be kept up

	mu   sync.Mutex // guards the fields below
	kept bool
	up   bool          // a round goes on, and has not been ended
	next chan struct{} // closed at the beginning of the next round
}

// rests is how long a scene is away, at least and at most. Records of a round are gone by then.
const (
	restsLeast = 2 * time.Second
	restsMost  = 8 * time.Second
)

func newStage(a *actor, stays time.Duration, play func(context.Context, *actor) error) *stage {
	return &stage{play: play, stays: stays, actor: a, wanted: make(chan struct{}), next: make(chan struct{})}
}

// run plays rounds until ctx ends.
func (s *stage) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.actor.fleet.note(s.round(ctx))
		pause(ctx, restsLeast)
		select {
		case <-s.wanted:
		case <-ctx.Done():
		case <-time.After(s.actor.between(0, restsMost-restsLeast)):
		}
	}
}

// round plays one round.
func (s *stage) round(ctx context.Context) error {
	round, end := context.WithCancel(ctx)
	s.mu.Lock()
	s.up = true
	close(s.next)
	s.next = make(chan struct{})
	s.mu.Unlock()
	timer := time.AfterFunc(s.stays, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.kept {
			s.up = false
			end()
		}
	})
	err := s.play(round, s.actor)
	timer.Stop()
	end()
	s.mu.Lock()
	s.up = false
	s.mu.Unlock()
	return err
}

// keep keeps the scene up, and blocks until a round goes on that stays. An operator can still end it; then
// another one follows.
func (s *stage) keep(ctx, fleet context.Context) error {
	s.mu.Lock()
	if !s.kept {
		s.kept = true
		close(s.wanted)
	}
	up, next := s.up, s.next
	s.mu.Unlock()
	if up {
		return nil
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-fleet.Done():
		return errors.New("the fleet has ended")
	}
}
