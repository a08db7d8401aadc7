//go:build !race

package waiting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
)

// modelLimits bounds what happens in a modelWorld, apart from what must happen in the end.
type modelLimits struct {
	goroutines []int // of each client
	fixed      int   // bits of the goroutines that want a lease without renewal, which no release grants
	rounds     int   // how often each of them asks for the lock
	giveUps    int   // waits that end before they have the lock
	messages   int   // that are lost
	replies    int   // that are lost
	copies     int   // of a call that run after the caller has given up on it
	expiries   int   // of the lock in Redis while it is held
	polls      int   // how often so much time passes that all waiters poll
	renewals   int   // how often so much time passes that all leases are renewed
	parts      bool  // other things can happen between any call and its reply, not only an acquisition's
	late       bool  // background work can start late
}

// The world reads the state of goroutines while they wait, without their mutexes. Nothing is
// concurrent, but the race detector cannot know that; it would only make the search slow.

// modelWorld is some clients of one modelServer. Their goroutines run one at a time, up to
// the next call to the server or the end of what they do; each event says which.
type modelWorld struct {
	limits     modelLimits
	server     *modelServer
	drivers    []*modelDriver
	clients    []*lease.Client
	goroutines []*modelGoroutine
	copies     []driver.Call // that are still on their way
	log        []string
	err        error           // what is wrong
	expired    map[string]bool // ids whose lease has expired in Redis
	old        map[string]bool // ids of copies that were under way for a third of a lease
	excused    bool            // something was lost since the last poll
	rests      bool            // nothing more happens by itself

	mu      sync.Mutex // guards the fields below
	tasks   []*modelTask
	works   int
	pending []func() // background work that has not started
	closed  bool

	unfix func() // makes the numbers of package dice random again
}

// modelGoroutine is one that asks for the lock.
type modelGoroutine struct {
	*modelWaiter
	name   string
	client int
	left   int // rounds
	state  modelGoroutineState
	gaveUp bool
}

// modelGoroutineState is the state of a modelGoroutine.
type modelGoroutineState uint8

const (
	modelIdle    modelGoroutineState = iota
	modelActing                      // it runs, up to a call or its end
	modelWaiting                     // it sleeps until it is woken
	modelHolding
	modelReleasing
)

// modelTask is a goroutine of the process between two calls.
type modelTask struct {
	name   string
	of     *modelGoroutine // nil for background work
	id     int             // of the goroutine of the process, for background work
	call   *driver.Call    // that waits for the server; nil if none
	ran    bool            // the call has run, and its reply is on its way
	reply  driver.Value
	resume chan error // lets the call return
	over   bool
}

func newModelWorld(limits modelLimits) *modelWorld {
	w := &modelWorld{limits: limits, server: &modelServer{entered: 1}, expired: make(map[string]bool), old: make(map[string]bool), unfix: dice.Fix(1)}
	for i, n := range limits.goroutines {
		d := w.server.connect()
		d.gate = w.gate
		w.drivers = append(w.drivers, d)
		c := newModelClient(d, w.spawned)
		w.clients = append(w.clients, c)
		for j := range n {
			name := fmt.Sprintf("goroutine %d of client %d", j+1, i+1)
			m := newModelWaiter(c, limits.fixed>>len(w.goroutines)&1 != 0)
			w.goroutines = append(w.goroutines, &modelGoroutine{modelWaiter: m, name: name, client: i, left: limits.rounds})
		}
	}
	return w
}

// close ends the clients and all that runs.
func (w *modelWorld) close() {
	w.mu.Lock()
	w.closed = true
	pending := w.pending
	tasks := slices.Clone(w.tasks)
	w.mu.Unlock()
	for _, f := range pending {
		go f()
	}
	for _, g := range w.goroutines {
		if g.cancel != nil {
			g.cancel()
		}
	}
	for _, t := range tasks {
		if t.call != nil {
			t.resume <- errModelClosed
		}
	}
	for _, c := range w.clients {
		_ = c.Close()
	}
	synctest.Wait()
	w.unfix()
}

var (
	errModelClosed = &driver.Error{Class: driver.Closed, Err: errors.New("the model ends")}
	errModelLost   = &driver.Error{Class: driver.Unknown, Err: errors.New("the reply was lost")}
	errModelUnsent = &driver.Error{Class: driver.NotSent, Err: errors.New("not sent")}
)

// spawned notes background work.
func (w *modelWorld) spawned(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		go f()
		return
	}
	w.pending = append(w.pending, f)
}

// start runs f as a task until it ends or waits.
func (w *modelWorld) start(name string, g *modelGoroutine, f func()) {
	t := &modelTask{name: name, of: g, resume: make(chan error, 1)}
	w.mu.Lock()
	w.tasks = append(w.tasks, t)
	w.mu.Unlock()
	go func() {
		if g == nil {
			w.mu.Lock()
			t.id = goroutineID()
			w.mu.Unlock()
		}
		f()
		w.mu.Lock()
		t.over = true
		w.mu.Unlock()
	}()
}

// goroutineID returns the number of the present goroutine.
func goroutineID() int {
	var text [64]byte
	words := bytes.Fields(text[:runtime.Stack(text[:], false)])
	id, err := strconv.Atoi(string(words[1]))
	if err != nil {
		panic(err)
	}
	return id
}

// gate makes a call wait for its events.
func (w *modelWorld) gate(ctx context.Context, call driver.Call) (driver.Value, error) {
	w.mu.Lock()
	t := w.caller(ctx, call)
	if w.closed || t == nil {
		w.mu.Unlock()
		return driver.Value{}, errModelClosed
	}
	t.call, t.ran = &call, false
	w.mu.Unlock()
	var err error
	select {
	case err = <-t.resume:
	case <-ctx.Done():
		if err = errModelUnsent; t.ran {
			err = errModelLost
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.call = nil
	return t.reply, err
}

// caller returns the task that makes a call. It asks for the number of the present goroutine
// only if nothing else tells, because that is slow.
func (w *modelWorld) caller(ctx context.Context, call driver.Call) *modelTask {
	asks, id := modelCaller(ctx), 0
	for _, t := range w.tasks {
		switch {
		case t.over || t.call != nil:
		case asks != nil:
			if t.of != nil && t.of.modelWaiter == asks {
				return t
			}
		case t.of != nil:
			if t.of.state == modelReleasing && t.of.hold.Owner() == call.Args[0] {
				return t
			}
		default:
			if id == 0 {
				id = goroutineID()
			}
			if t.id == id {
				return t
			}
		}
	}
	return nil
}

// settle lets all goroutines run as far as they can, and checks what must always be true.
func (w *modelWorld) settle() {
	for {
		synctest.Wait()
		w.tidy()
		if w.limits.late || len(w.pending) == 0 {
			break
		}
		w.begin()
	}
	w.check()
}

// begin starts the first background work that has not started.
func (w *modelWorld) begin() {
	f := w.pending[0]
	w.pending = w.pending[1:]
	w.works++
	w.start(fmt.Sprint("background work ", w.works), nil, f)
}

// tidy removes the tasks that are over, and notes what became of their goroutines.
func (w *modelWorld) tidy() {
	w.tasks = slices.DeleteFunc(w.tasks, func(t *modelTask) bool {
		if t.over && t.of != nil {
			w.ended(t.of)
		}
		return t.over
	})
}

// ended notes what became of g after it has run.
func (w *modelWorld) ended(g *modelGoroutine) {
	switch {
	case g.state == modelReleasing:
		if g.err != nil && !w.excused && !w.expired[g.hold.Owner()] {
			w.fail("the release by %s fails: %v", g.name, g.err)
		}
		w.excused = w.excused || w.expired[g.hold.Owner()] // the release passes nothing on
		g.hold, g.state = nil, modelIdle
	case !g.over:
		g.state = modelWaiting
	case g.hold != nil:
		g.state = modelHolding
	default:
		g.state = modelIdle
		if !g.gaveUp && !w.excused {
			w.fail("%s fails: %v", g.name, g.err)
		}
	}
}

func (w *modelWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// check compares the holds of the goroutines with the server.
func (w *modelWorld) check() {
	w.server.expire()
	holder := ""
	for _, g := range w.goroutines {
		if g.state != modelHolding || w.expired[g.hold.Owner()] {
			continue
		}
		switch {
		case holder != "":
			w.fail("%s and %s hold the lock", holder, g.name)
		case !g.gaveUp && g.hold.Context().Err() != nil: // else it ends with the context of the wait
			w.fail("%s has lost the lock: %v", g.name, context.Cause(g.hold.Context()))
		case w.server.owner != g.hold.Owner():
			w.fail("%s believes that it holds the lock", g.name)
		}
		holder = g.name
	}
}

// waiting reports whether a goroutine wants the lock.
func (w *modelWorld) waiting() bool {
	return slices.ContainsFunc(w.goroutines, func(g *modelGoroutine) bool { return g.state == modelWaiting || g.state == modelActing })
}

// held reports whether a goroutine has the lock that the server has.
func (w *modelWorld) held() bool {
	return slices.ContainsFunc(w.goroutines, func(g *modelGoroutine) bool {
		return (g.state == modelHolding || g.state == modelReleasing) && g.hold.Owner() == w.server.owner
	})
}

// outlived reports whether a goroutine has a hold whose lease has expired in Redis.
func (w *modelWorld) outlived() bool {
	return slices.ContainsFunc(w.goroutines, func(g *modelGoroutine) bool { return g.state == modelHolding && w.expired[g.hold.Owner()] })
}

// checkRest checks what must be true when nothing more happens by itself.
func (w *modelWorld) checkRest() {
	switch {
	case w.excused || w.outlived():
	case w.server.owner == "" && w.waiting():
		w.fail("the lock is free, and nobody asks for it")
	case w.old[w.server.owner] && !w.held():
		w.excused = true // the janitor looks for it every quarter of a lease by now
	case w.server.owner != "" && !w.held():
		w.fail("the lock was granted to nobody")
	case w.idle():
		w.checkEnd()
	}
}

// checkEnd checks that nothing is left when no goroutine waits for the lock or holds it.
func (w *modelWorld) checkEnd() {
	if w.server.owner != "" || len(w.server.turns) > 0 {
		w.fail("the server still has the owner %q and the turns %v", w.server.owner, w.server.turns)
	}
	for i, c := range w.clients {
		if rest := modelRest(c); rest != "" {
			w.fail("client %d still has%s", i+1, rest)
		}
	}
}

// idle reports whether no goroutine waits for the lock or holds it.
func (w *modelWorld) idle() bool {
	return !slices.ContainsFunc(w.goroutines, func(g *modelGoroutine) bool { return g.state != modelIdle })
}
