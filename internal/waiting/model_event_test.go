//go:build !race

package waiting

import (
	"fmt"
	"strings"
	"time"
)

// modelEvent is one thing that happens in a modelWorld.
type modelEvent struct {
	kind  modelKind
	who   int // the number of the goroutine, task, client or copy
	cause Cause
}

// modelKind is a kind of event.
type modelKind uint8

const (
	// These happen by themselves.
	modelDelivers modelKind = iota // a message reaches a client
	modelConfirms                  // Redis confirms a subscription
	modelWakes                     // a goroutine stops sleeping
	modelRuns                      // a call runs in the server
	modelReplies                   // its reply arrives
	modelStarts                    // background work starts
	modelCopies                    // a late copy of a call runs in the server
	modelPauses                    // so much time passes that pauses between attempts are over
	// These may happen.
	modelAsks
	modelUnlocks
	modelGivesUp
	modelLosesMessage
	modelLosesReply
	modelDelays // the caller gives up on a call that has not run yet
	modelExpires
	modelPolls  // so much time passes that all waiters poll
	modelRenews // so much time passes that all leases are renewed
)

// words says what happens.
func (w *modelWorld) words(e modelEvent) string {
	if text := modelWords[e.kind]; !strings.Contains(text, "%") {
		return text
	}
	subject := ""
	switch e.kind {
	case modelDelivers, modelConfirms, modelLosesMessage:
		subject = fmt.Sprint("client ", e.who+1)
	case modelCopies:
		subject = w.copies[e.who].Script.Name()
	case modelRuns, modelReplies, modelLosesReply, modelDelays:
		t := w.tasks[e.who]
		subject = t.call.Script.Name() + " of " + t.name
	case modelWakes:
		subject = w.goroutines[e.who].name
		return subject + [...]string{Woken: " is woken", Notified: " is notified", Elapsed: " has slept for long enough"}[e.cause]
	default:
		subject = w.goroutines[e.who].name
	}
	return fmt.Sprintf(modelWords[e.kind], subject)
}

var modelWords = [...]string{
	modelDelivers: "a message reaches %s", modelConfirms: "%s is subscribed", modelWakes: "%s wakes", modelRuns: "%s runs",
	modelReplies: "%s returns", modelStarts: "the first background work starts", modelCopies: "%s runs late", modelPauses: "a moment passes",
	modelAsks: "%s asks for the lock", modelUnlocks: "%s releases the lock", modelGivesUp: "%s gives up",
	modelLosesMessage: "a message to %s is lost", modelLosesReply: "%s loses its reply", modelDelays: "%s is delayed",
	modelExpires: "the lease expires in Redis", modelPolls: "a poll passes", modelRenews: "a third of a lease passes",
}

// modelEvents are events that can happen.
type modelEvents []modelEvent

func (e *modelEvents) add(kind modelKind, who int) { *e = append(*e, modelEvent{kind: kind, who: who}) }

// themselves returns the number of events that happen by themselves. They come first.
func (e modelEvents) themselves() (n int) {
	for n < len(e) && e[n].kind < modelAsks {
		n++
	}
	return n
}

// events returns all that can happen now, first what happens by itself.
func (w *modelWorld) events() (events modelEvents) {
	for i, d := range w.drivers {
		if len(d.inbox) > 0 {
			events.add(modelDelivers, i)
		}
		if len(d.asked) > 0 {
			events.add(modelConfirms, i)
		}
	}
	for i, g := range w.goroutines {
		if g.state == modelWaiting {
			for _, why := range g.causes() {
				events = append(events, modelEvent{modelWakes, i, why})
			}
		}
	}
	pause := w.calls(&events)
	if len(w.pending) > 0 {
		events.add(modelStarts, 0)
	}
	for i := range w.copies {
		events.add(modelCopies, i)
	}
	if pause && len(events) == 0 {
		events.add(modelPauses, 0)
	}
	if w.rests = len(events) == 0; w.rests {
		if w.checkRest(); w.excused && w.err == nil {
			events.add(modelPolls, 0)
			return events
		}
	}
	w.choices(&events)
	w.losses(&events)
	return events
}

// calls adds what calls do by themselves. It reports whether a goroutine pauses between two.
func (w *modelWorld) calls(events *modelEvents) (pause bool) {
	for i, t := range w.tasks {
		switch {
		case t.call == nil:
			pause = pause || t.of != nil
		case t.ran:
			events.add(modelReplies, i)
		default:
			events.add(modelRuns, i)
		}
	}
	return pause
}

// choices adds what goroutines may do.
func (w *modelWorld) choices(events *modelEvents) {
	l := &w.limits
	fresh := -1 // the last client of which a goroutine has never asked: the others need not be tried before it
	for i, g := range w.goroutines {
		switch {
		case g.state == modelHolding:
			events.add(modelUnlocks, i)
		case g.state == modelIdle && g.left == l.rounds && fresh == g.client:
		case g.state == modelIdle && g.left > 0:
			events.add(modelAsks, i)
			if g.left == l.rounds && l.fixed == 0 {
				fresh = g.client
			}
		case l.giveUps > 0 && g.canGiveUp():
			events.add(modelGivesUp, i)
		}
	}
}

// canGiveUp reports whether the wait of g can end before it has the lock.
func (g *modelGoroutine) canGiveUp() bool {
	return !g.gaveUp && (g.state == modelWaiting || g.state == modelActing && !g.signaled())
}

// losses adds what may go wrong.
func (w *modelWorld) losses(events *modelEvents) {
	l := &w.limits
	for i, d := range w.drivers {
		if l.messages > 0 && len(d.inbox) > 0 {
			events.add(modelLosesMessage, i)
		}
	}
	for i, t := range w.tasks {
		switch {
		case t.call == nil:
		case t.ran && l.replies > 0:
			events.add(modelLosesReply, i)
		case !t.ran && l.copies > 0:
			events.add(modelDelays, i)
		}
	}
	if l.expiries > 0 && w.held() {
		events.add(modelExpires, 0)
	}
	if l.polls > 0 {
		events.add(modelPolls, 0)
	}
	if l.renewals > 0 {
		events.add(modelRenews, 0)
	}
}

// happen makes e happen.
func (w *modelWorld) happen(e modelEvent) {
	w.log = append(w.log, w.words(e))
	l := &w.limits
	switch e.kind {
	case modelDelivers:
		w.drivers[e.who].deliver()
	case modelConfirms:
		w.drivers[e.who].confirm()
	case modelStarts:
		w.begin()
	case modelCopies:
		w.server.run(w.copies[e.who])
		w.copies = append(w.copies[:e.who:e.who], w.copies[e.who+1:]...)
	case modelPauses:
		time.Sleep(modelPause)
	case modelWakes, modelAsks, modelUnlocks, modelGivesUp:
		w.act(w.goroutines[e.who], e)
	case modelLosesMessage:
		l.messages--
		w.excused = true
		w.drivers[e.who].next()
	case modelExpires:
		l.expiries--
		w.excused = true
		w.expired[w.server.owner] = true
		w.server.owner = ""
	case modelPolls:
		l.polls = max(l.polls-1, 0)
		w.excused = w.excused && !w.rests
		time.Sleep(modelPoll)
	case modelRenews:
		l.renewals--
		w.excused = true // what is under way for so long is like lost
		for _, c := range w.copies {
			w.old[c.Args[0]] = true
		}
		time.Sleep(modelRenewal)
	default:
		w.answer(w.tasks[e.who], e.kind)
	}
	w.settle()
}

// act makes a goroutine do something.
func (w *modelWorld) act(g *modelGoroutine, e modelEvent) {
	switch e.kind {
	case modelWakes:
		g.state = modelActing
		w.start(g.name, g, func() { g.awake(e.cause) })
	case modelAsks:
		g.left--
		g.state, g.gaveUp = modelActing, false
		w.start(g.name, g, g.ask)
	case modelUnlocks:
		g.state = modelReleasing
		w.start(g.name, g, func() { g.err = g.unlock() })
	case modelGivesUp:
		w.limits.giveUps--
		g.gaveUp = true
		g.cancel()
	}
}

// answer makes something happen to the call of a task.
func (w *modelWorld) answer(t *modelTask, kind modelKind) {
	switch kind {
	case modelRuns:
		t.reply, t.ran = w.server.run(*t.call), true
		if !w.limits.parts && (t.of == nil || t.of.state == modelReleasing) {
			t.resume <- nil
		}
	case modelReplies:
		t.resume <- nil
	case modelLosesReply:
		w.limits.replies--
		w.excused = true
		t.resume <- errModelLost
	case modelDelays:
		w.limits.copies--
		w.excused = true
		w.copies = append(w.copies, *t.call)
		t.resume <- errModelLost
	}
}
