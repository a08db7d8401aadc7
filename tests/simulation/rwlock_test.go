package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// The same bad network for readers and writers that re-enter, read while they
// write and go on as readers. Whatever happens, no writer is valid together
// with another holder, and nothing stays in Redis.
func TestRWLockSimulation(t *testing.T) {
	const seeds = 10
	var sum tally
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			bubble(t, func(t *testing.T, s *memredis.Server) {
				w := &rwSimulation{simulation: simulation{t: t, server: s, seed: seed}, inside: make(map[string][]*rwVisit)}
				w.work = w.visit
				w.run()
				sum.add(&w.tally)
			})
		})
	}
	t.Logf("%+v", sum.counts)
	for what, least := range map[string]int{
		"reads": 10 * seeds, "together": 5 * seeds, "writes": 5 * seeds, "downgrades": seeds, "lost": seeds / 2, "given up": seeds,
		"lost replies": 10 * seeds, "late copies": seeds, "silences": seeds, "slow answers": seeds, "deaths": seeds / 4,
	} {
		if sum.counts[what] < least {
			t.Errorf("%d %s in all, want %d at least", sum.counts[what], what, least)
		}
	}
}

type rwSimulation struct {
	simulation
	inside map[string][]*rwVisit // by name; guarded by state
}

// rwVisit is a hold and the goroutine that has it.
type rwVisit struct {
	*mortise.Hold
	by     *int // the goroutine
	writes bool
}

func (w *rwSimulation) visit(c *mortise.Client, r *rand.Rand) {
	k := c.RWLock(fmt.Sprint("doc", r.IntN(2)))
	options := mortise.LockOptions{}
	if r.IntN(4) == 0 {
		options.MaxHold = time.Duration(200+r.IntN(4000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(r.IntN(30_000))*time.Millisecond)
	defer cancel()
	ctx = mortise.WithOwner(ctx)
	by := new(int)
	pause := func() { time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond) }
	// take returns nil if it did not get the lock.
	take := func(k taker, writes bool) (*mortise.Hold, context.Context) {
		hold, held, err := k.Lock(ctx)
		if err != nil {
			w.count("given up")
			w.check(err)
			return nil, nil
		}
		w.come(&rwVisit{hold, by, writes})
		return hold, held
	}
	leave := func(h *mortise.Hold, held context.Context) {
		pause()
		if held.Err() != nil && ctx.Err() == nil {
			w.count("lost")
		}
		w.check(h.Unlock())
	}
	if r.IntN(3) > 0 {
		if hold, held := take(k.Read().With(options), false); hold != nil {
			w.count("reads")
			pause()
			if _, _, err := k.Write().Lock(ctx); err == nil {
				w.t.Error("a reader has become a writer")
			} else if !errors.Is(err, mortise.ErrReentry) {
				w.check(err)
			}
			if inner, again := take(k.Read(), false); inner != nil {
				leave(inner, again)
			}
			leave(hold, held)
		}
		return
	}
	hold, held := take(k.Write().With(options), true)
	if hold == nil {
		return
	}
	w.count("writes")
	pause()
	reader, rheld := take(k.Read(), false)
	if r.IntN(2) == 0 && reader != nil { // otherwise it is the writer that goes on
		hold, held, reader, rheld = reader, rheld, hold, held
		w.count("downgrades")
	}
	if reader != nil {
		leave(reader, rheld)
	}
	leave(hold, held)
}

// come notes a hold, and fails if it may not be valid together with those
// that are inside.
func (w *rwSimulation) come(v *rwVisit) {
	w.state.Lock()
	defer w.state.Unlock()
	if v.writes != strings.HasSuffix(v.Owner(), ":write") {
		w.t.Errorf("the name %s is not that of its side", v.Owner())
	}
	together := 0
	valid := w.inside[v.Name()][:0]
	for _, other := range w.inside[v.Name()] {
		if !other.Valid() {
			continue
		}
		valid = append(valid, other)
		switch {
		case other.by == v.by || !v.Valid():
		case other.writes || v.writes:
			w.t.Errorf("%s and %s have %s at once", other.Owner(), v.Owner(), v.Name())
		default:
			together++
		}
	}
	if together > 0 {
		w.count("together")
	}
	w.inside[v.Name()] = append(valid, v)
}
