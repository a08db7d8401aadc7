package lockmgr

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Record is the record of a client, as it was read.
type Record struct {
	ID      string // of the client
	Body    record.Body
	Now, At time.Time // when it was read and written, by Redis' clock
	Edition uint64
	Asked   []script.ClientRequest
}

// hold returns what the record says of the lease with that id, or nil.
func (r *Record) hold(owner string) *record.Hold {
	for i := range r.Body.Holds {
		if r.Body.Holds[i].Owner == owner {
			return &r.Body.Holds[i]
		}
	}
	return nil
}

// Since returns since when the client has the lease with that id, by Redis' clock; zero if that is
// not known.
func (r *Record) Since(owner string) time.Time {
	if h := r.hold(owner); h != nil {
		return time.UnixMilli(h.Since)
	}
	return time.Time{}
}

// WaitsSince returns since when the client waits in the queue of a fair lock under that id, by Redis'
// clock; zero if that is not known.
func (r *Record) WaitsSince(owner string) time.Time {
	for _, w := range r.Body.Waits {
		if w.Owner == owner {
			return time.UnixMilli(w.Since)
		}
	}
	return time.Time{}
}

// others has the records of other clients that were read lately.
type others struct {
	client *Client

	mu    sync.Mutex // guards known
	known map[string]knownClient
}

// knownClient is what is known of another client.
type knownClient struct {
	record *Record // nil if it has none
	at     time.Time
}

const (
	// freshFor is how long a record that was read is not read again to name a holder, and
	// strangerFor how long a client without one is not asked again.
	freshFor    = time.Second
	strangerFor = 5 * time.Second
	// lookUpWithin is how long a caller that was refused waits for the name of the holder.
	lookUpWithin = 250 * time.Millisecond
	// mostKnown limits the cache.
	mostKnown = 1000
	// mostRecords is how many clients are listed at most, and recordsAtOnce in one batch: a
	// record may be long.
	mostRecords   = 10_000
	recordsAtOnce = 64
)

// cached returns the record of the client of an owner, if it was read before, or nil.
func (o *others) cached(owner string) *Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[script.ClientOf(owner)].record
}

// of returns the record of the client of an owner, or nil. It reads it unless it did so a moment
// ago, and does not wait long. The client of a Redisson thread has none.
func (o *others) of(owner string) *Record {
	id := script.ClientOf(owner)
	if !script.IsMortise(owner) {
		return nil
	}
	now := time.Now()
	o.mu.Lock()
	k, ok := o.known[id]
	o.mu.Unlock()
	if fresh := now.Sub(k.at); ok && (fresh < freshFor || k.record == nil && fresh < strangerFor) {
		return k.record
	}
	ctx, cancel := context.WithTimeout(o.client.lingerer, lookUpWithin)
	defer cancel()
	list, err := o.read(ctx, id)
	if err != nil || len(list) == 0 {
		return nil
	}
	return list[0]
}

// read reads the records of clients; those without one are left out. It returns the first error.
func (o *others) read(ctx context.Context, ids ...string) (list []*Record, err error) {
	c := o.client
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = keyspace.ClientRecord(c.config.Prefix, id)
	}
	for i, text := range script.ReadClients(ctx, c.driver, record.MaxBody, keys...) {
		if text.Err != nil {
			if err == nil {
				err = text.Err
			}
			continue
		}
		var r *Record
		if body, ok := record.Parse(text.Body); ok && !text.At.IsZero() {
			r = &Record{ID: ids[i], Body: body, Now: text.Now, At: text.At, Edition: text.Edition, Asked: text.Asked}
			list = append(list, r)
		}
		o.note(ids[i], r)
	}
	return list, err
}

// note notes what was read of a client.
func (o *others) note(id string, r *Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = make(map[string]knownClient)
	}
	if len(o.known) >= mostKnown {
		clear(o.known)
	}
	o.known[id] = knownClient{r, time.Now()}
}

// Records returns the records of all clients with the same prefix.
func (c *Client) Records(ctx context.Context) (list []*Record, err error) {
	err = c.Run(func() error {
		var ids []string
		_, err := c.call(ctx, c.config.RetryFor, func(ctx context.Context) (err error) {
			ids, err = script.ListClients(ctx, c.driver, keyspace.ClientIndex(c.config.Prefix), mostRecords)
			return err
		})
		for from := 0; from < len(ids) && err == nil; from += recordsAtOnce {
			var some []*Record
			some, err = c.others.read(ctx, ids[from:min(from+recordsAtOnce, len(ids))]...)
			list = append(list, some...)
		}
		return err
	})
	return list, err
}

// RecordsOf returns the records of the clients of owners, by the id of the client: no more than
// are read at once. Those that cannot be read are left out.
func (c *Client) RecordsOf(ctx context.Context, owners []string) map[string]*Record {
	var ids []string
	found := make(map[string]*Record)
	for _, owner := range owners {
		id := script.ClientOf(owner)
		if _, ok := found[id]; !ok && script.IsMortise(owner) && len(ids) < recordsAtOnce {
			found[id] = nil
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	list, _ := c.others.read(ctx, ids...)
	clear(found)
	for _, r := range list {
		found[r.ID] = r
	}
	return found
}

// identify adds what is known of the holder to an error of a refusal. The end of ctx is not delayed
// for it: then only what was read during the wait is added.
func (c *Client) identify(ctx context.Context, err error) {
	if c.config.Identity == nil || err == nil {
		return
	}
	known := c.others.of
	if ctx.Err() != nil {
		known = c.others.cached
	}
	c.errors.Identify(err, known)
}

// Turns returns who takes turns for a name.
func (c *Client) Turns(ctx context.Context, o *Object) (t script.TurnsTaken, err error) {
	err = o.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		t, err = c.conn.ReadTurns(ctx, o.name, keyspace.LockChannel(o.name))
		return err
	})
	return t, err
}
