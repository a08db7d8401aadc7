package mortise

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/recorder"
	"github.com/mortise-go/mortise/internal/script"
)

// Queue lists the waiters for a name.
type Queue struct {
	Name string
	// Waiters are mortise's waiters, and the Redisson threads in the queue of a fair lock, in
	// the order in which they are served, as far as there is one: goroutines of one client
	// are next to each other, except for a fair lock.
	Waiters []Waiter
	// Unlisted is how many more goroutines of those clients wait: a client's record has 64 waits at most.
	Unlisted int
	// Listeners is the number of Redisson clients that listen for a release; each may have
	// several threads that wait. It is -1 if that cannot be known: on a cluster with classic
	// messages, or without the right to ask.
	Listeners int
	// Now is the time of Redis' clock at which Since of the waiters was read; zero if none is
	// known.
	Now time.Time
}

// Queue reads the waiters for a name: the queue of a fair lock, the turns of other locks, and
// the records of the clients. It changes nothing, and blocks only for Redis' reply.
//
// A waiter that came less than about a second ago may be missing. Waiters of clients that hide
// their identity are known only by the queue of a fair lock, or as one per client.
//
// Errors: those of every method; see the package documentation. If the records of some servers of a cluster could not be read, the
// error is an [UnlistedError], beside the waiters that are known without them.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	needContext(ctx)
	q := Queue{Name: name, Listeners: -1}
	o := c.object(name)
	key, err := read(ctx, "queue", &o.core.Object)
	if err != nil {
		return q, err
	}
	turns, err := o.core.Turns(ctx)
	if err != nil {
		return q, o.fail("queue", err)
	}
	q.Listeners = turns.Listeners
	records, err := recorder.Of(c.core).Records(ctx)
	if err != nil {
		err = o.fail("queue", unlisted(c.core.Because(ctx, err)))
	}
	for _, r := range records {
		q.Now = r.Now
		for _, w := range waitsFor(name, r) {
			q.Unlisted += w.More
		}
	}
	q.Waiters = queued(name, waiters(key.Queue), turns.Clients, records)
	return q, err
}

// queued merges what is known of the waiters for a name: the queue of a fair lock, the clients
// in the order of their turns, and what the records say.
func queued(name string, fair []Waiter, turns []string, records []*record.Client) (list []Waiter) {
	listed := make(map[string]bool)
	known := make(map[string]*record.Client)
	for _, r := range records {
		known[r.ID] = r
	}
	for _, w := range fair {
		r := known[script.ClientOf(w.Owner)]
		if w.Client = clientInfo(r); r != nil {
			w.Since = r.WaitsSince(w.Owner)
		}
		for _, wait := range waitsFor(name, r) {
			if wait.Owner == w.Owner {
				w.Kind = wait.Kind
			}
		}
		listed[w.Owner] = true
		list = append(list, w)
	}
	for _, id := range inTurn(name, turns, records) {
		r := known[id]
		waits := waitsFor(name, r)
		if len(waits) == 0 {
			list = append(list, Waiter{Owner: id, TTL: -1, Client: clientInfo(r)})
		}
		for _, w := range waits {
			if w.Owner == "" || !listed[w.Owner] {
				list = append(list, Waiter{Owner: id, TTL: -1, Kind: w.Kind, Client: clientInfo(r), Since: record.Time(w.Since)})
			}
		}
	}
	return list
}

// inTurn returns the clients that wait for a name: those that take turns, in their order, and then the
// others, the one that waits longest first.
func inTurn(name string, turns []string, records []*record.Client) []string {
	order := slices.Clone(turns)
	since := make(map[string]int64)
	for _, r := range records {
		if waits := waitsFor(name, r); len(waits) > 0 && !slices.Contains(turns, r.ID) {
			since[r.ID] = waits[0].Since
			order = append(order, r.ID)
		}
	}
	slices.SortStableFunc(order[len(turns):], func(a, b string) int { return cmp.Compare(since[a], since[b]) })
	return order
}

// waitsFor returns the waits for a name that a record lists. r may be nil.
func waitsFor(name string, r *record.Client) (waits []record.Wait) {
	if r == nil {
		return nil
	}
	for _, w := range r.Body.Waits {
		if w.Name == name {
			waits = append(waits, w)
		}
	}
	return waits
}
