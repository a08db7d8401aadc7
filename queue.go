package mortise

import (
	"context"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/lockmgr"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Queue has the waiters for a name.
type Queue struct {
	Name string
	// Waiters are mortise's waiters, and the Redisson threads in the queue of a fair lock, in
	// the order in which they are served, as far as there is one: goroutines of one client
	// are next to each other, except for a fair lock.
	Waiters []Waiter
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
// Errors: those of every method; see the package documentation.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	needContext(ctx)
	q := Queue{Name: name, Listeners: -1}
	o := c.object(name)
	key, err := read(ctx, "queue", &o.core)
	if err != nil {
		return q, err
	}
	turns, err := c.core.Turns(ctx, &o.core)
	if err != nil {
		return q, o.fail("queue", err)
	}
	q.Listeners = turns.Listeners
	records, err := c.core.Records(ctx)
	if err != nil {
		return q, o.fail("queue", c.core.Because(ctx, err))
	}
	for _, r := range records {
		q.Now = r.Now
	}
	q.Waiters = queued(name, waiters(key.Queue), turns.Clients, records)
	return q, nil
}

// queued merges what is known of the waiters for a name: the queue of a fair lock, the clients
// in the order of their turns, and what the records say.
func queued(name string, fair []Waiter, turns []string, records []*lockmgr.Record) (list []Waiter) {
	listed := make(map[string]bool)
	byID := make(map[string]*lockmgr.Record)
	waits := make(map[string][]record.Wait)
	var order []string // of clients
	for _, r := range records {
		byID[r.ID] = r
		for _, w := range r.Body.Waits {
			if w.Name == name {
				if len(waits[r.ID]) == 0 {
					order = append(order, r.ID)
				}
				waits[r.ID] = append(waits[r.ID], w)
			}
		}
	}
	for _, w := range fair {
		id := script.ClientOf(w.Owner)
		w.Client = clientInfo(byID[id])
		for _, known := range waits[id] {
			if known.Owner == w.Owner {
				w.Since = time.UnixMilli(known.Since)
			}
		}
		listed[w.Owner] = true
		list = append(list, w)
	}
	rank := func(id string) int {
		if i := slices.Index(turns, id); i >= 0 {
			return i
		}
		return len(turns)
	}
	for _, id := range turns {
		if len(waits[id]) == 0 && !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if len(waits[a]) == 0 || len(waits[b]) == 0 {
			return 0
		}
		return int(waits[a][0].Since - waits[b][0].Since)
	})
	for _, id := range order {
		if len(waits[id]) == 0 {
			list = append(list, Waiter{Owner: id, TTL: -1, Client: clientInfo(byID[id])})
		}
		for _, w := range waits[id] {
			if !listed[w.Owner] || w.Owner == "" {
				list = append(list, Waiter{Owner: id, TTL: -1, Kind: w.Kind, Client: clientInfo(byID[id]), Since: time.UnixMilli(w.Since)})
			}
		}
	}
	return list
}
