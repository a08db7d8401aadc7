package mortisetest

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// ServerRates says how often faults of a server occur, as probabilities from 0 to 1 of each script
// that runs, for [Server.Chaos]. A script is followed by one of them at most.
type ServerRates struct {
	FailOver float64 // which forgets up to Forget writes
	Restart  float64
	Evict    float64 // of one key, if there is one
	Jump     float64 // forward or back, by up to JumpBy

	Forget int
	JumpBy time.Duration
}

type serverChaos struct {
	seed  uint64
	rates ServerRates
	drawn map[string]int
}

// Chaos has faults follow scripts at random, until it is called again, with other rates or none.
// What follows the nth script that the server runs depends only on the seed and n. [Server.Hits] says
// what has happened.
//
// Rates that mean nothing make it panic: see [Link.Chaos].
func (s *Server) Chaos(seed uint64, rates ServerRates) {
	demand(rates.FailOver, rates.Restart, rates.Evict, rates.Jump)
	if rates.Forget < 0 || rates.JumpBy < 0 || rates.Jump > 0 && rates.JumpBy == 0 {
		panic(fmt.Sprintf("mortisetest: %+v: Forget and JumpBy must not be negative, and jumps need a JumpBy", rates))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = nil
	if rates != (ServerRates{}) {
		s.plan = &serverChaos{seed: seed, rates: rates, drawn: make(map[string]int)}
	}
}

// draw returns the fault that follows a script, or nil. It must be called with the server's mu held.
func (c *serverChaos) draw() func(s *Server) {
	if c == nil {
		return nil
	}
	r, a := draw(c.seed, "script", c.drawn), &c.rates
	hit := one(r)
	switch {
	case hit(a.FailOver):
		return func(s *Server) { s.FailOver(r.IntN(a.Forget + 1)) }
	case hit(a.Restart):
		return (*Server).Restart
	case hit(a.Evict):
		return func(s *Server) { s.evictOne(r) }
	case hit(a.Jump):
		by := upTo(r, a.JumpBy)
		if r.IntN(2) == 0 {
			by = -by
		}
		return func(s *Server) { s.Jump(by) }
	}
	return nil
}

func (s *Server) evictOne(r *rand.Rand) {
	s.mu.Lock()
	s.tick()
	keys := s.mini.Keys()
	s.mu.Unlock()
	if len(keys) > 0 {
		s.Evict(keys[r.IntN(len(keys))])
	}
}
