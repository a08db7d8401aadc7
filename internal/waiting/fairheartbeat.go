package waiting

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

const (
	// heartbeatEvery is how often a client refreshes the places of its waiters, and
	// checks whether the head of the queue in Redis is alive.
	heartbeatEvery = 800 * time.Millisecond
	// heartbeatPage is the page size of a heartbeat: each one refreshes the first
	// page of a client's waiters, and the other pages in rotation.
	heartbeatPage = 50
)

// heartbeat is when a client next shows that its waiters for a fair lock are alive.
type heartbeat struct {
	state heartbeatState
	timer *time.Timer // makes it due; nil if it was never scheduled
	next  time.Time   // when that is
	count int         // number of heartbeats so far
}

type heartbeatState uint8

const (
	heartbeatUnset     heartbeatState = iota // until an attempt is refused
	heartbeatScheduled                       // until the timer fires
	heartbeatDue                             // until the head of the queue has sent it
)

// owesHeartbeat reports whether a heartbeat is due. f may be nil.
func (f *fairQueue) owesHeartbeat() bool { return f != nil && f.heartbeat.state == heartbeatDue }

// scheduleHeartbeat makes the next heartbeat due in a while, or earlier if it is so
// already. again is after what time something may change in Redis without a message; 0 if
// that is not known.
func (f *fairQueue) scheduleHeartbeat(again time.Duration) {
	d := heartbeatEvery
	if (Site{f.client, f.place}).isDeaf() {
		d = deafPoll
	}
	if d = Jitter(d); again > 0 {
		d = min(d, again+time.Millisecond)
	}
	h := &f.heartbeat
	next := time.Now().Add(d)
	switch {
	case h.state == heartbeatDue, h.state == heartbeatScheduled && !next.Before(h.next):
		return
	case h.timer == nil:
		h.timer = time.AfterFunc(d, f.heartbeatIsDue)
	default:
		h.timer.Reset(d)
	}
	h.state, h.next = heartbeatScheduled, next
}

// heartbeatIsDue wakes the head of the queue to send a heartbeat. It locks Client.Mu.
func (f *fairQueue) heartbeatIsDue() {
	f.client.Mu.Lock()
	defer f.client.Mu.Unlock()
	if f.head != nil {
		f.heartbeat.state = heartbeatDue
		f.head.Signal()
	}
}

// places returns the places of the waiters that the next heartbeat refreshes.
func (f *fairQueue) places() (places []script.FairPlace) {
	f.heartbeat.count++
	pages := (f.length + heartbeatPage - 1) / heartbeatPage
	now, n := time.Now(), 0
	for w := f.head; w != nil; w = w.next {
		switch page := n / heartbeatPage; page {
		case 0:
			places = append(places, w.fair.place(0, now))
		case f.heartbeat.count % pages:
			places = append(places, w.fair.place(pages, now))
		}
		n++
	}
	return places
}

// sendHeartbeat refreshes the places of the client's waiters in Redis, and wakes those
// that should ask for the lock, according to Redis.
func (s *fairContest) sendHeartbeat(ctx context.Context) error {
	c, f := s.Lock.Client(), s.queue
	c.Mu.Lock()
	places := f.places()
	c.Mu.Unlock()
	var start time.Time
	var news script.FairNews
	_, err := c.CallFor(ctx, &s.w.Waiter, c.Config().RetryFor, func(ctx context.Context) (err error) {
		if s.w.isGranted() {
			return errGranted
		}
		start = time.Now()
		news, err = script.FairTend(ctx, c.Driver(), s.ops.Fair(), c.ID(), places)
		return err
	})
	c.Mu.Lock()
	defer c.Mu.Unlock()
	f.heartbeat.state = heartbeatUnset
	f.scheduleHeartbeat(news.Again)
	switch {
	case err == nil:
		f.mix(news.Mixed)
		f.summon(places, news.Ask, start)
		if news.Holder.Owner != "" { // it may have changed since a waiter was refused
			f.refused = &outcome.Refusal{By: news.Holder}
		}
	case ctx.Err() != nil, errors.Is(err, errGranted):
		return nil // the next step finds that the wait is over
	}
	return err
}

// summon makes the called waiters ask for the lock. The other waiters in places did not
// have it at start.
func (f *fairQueue) summon(places []script.FairPlace, called []string, start time.Time) {
	for _, id := range called {
		if w := f.waiters[id]; w != nil {
			w.mustAsk()
		}
	}
	for _, p := range places {
		if w := f.waiters[p.Owner]; w != nil && !slices.Contains(called, p.Owner) {
			w.seen = start
		}
	}
}
