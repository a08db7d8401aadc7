package recorder

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// others has the records of other clients that were read lately.
type others struct {
	client *lease.Client

	mu     sync.Mutex // guards what follows
	known  map[string]knownClient
	silent map[string]time.Time // by address, the servers of a cluster that have not answered, and when
}

// knownClient is what is known of another client.
type knownClient struct {
	record  *record.Client // nil if it has none
	at      time.Time
	reading chan struct{} // is closed when a read that was begun at that time is over; else nil
}

const (
	// freshFor is how long a record is not read again to name a holder. If there was none, the
	// holder may have come a moment ago: then it is [settles].
	freshFor = time.Second
	// lookUpWithin is how long a caller that was refused waits for the name of the holder.
	lookUpWithin = 250 * time.Millisecond
	// namesWithin is how long the names of many holders are waited for, and silentFor how long a server of a
	// cluster that has not given one by then is not asked for more.
	namesWithin = time.Second
	silentFor   = 10 * time.Second
	// mostKnown limits the cache.
	mostKnown = 1000
	// mostRecords is how many clients are listed at most, and recordsAtOnce in one batch: a
	// record may be long.
	mostRecords   = 10_000
	recordsAtOnce = 64
)

// cached returns the record of the client of an owner, if it was read before, or nil.
func (o *others) cached(owner string) *record.Client {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[script.ClientOf(owner)].record
}

// of returns the record of the client of an owner, or nil. It reads it unless it did so a moment
// ago, and does not wait long, nor beyond the end of ctx. The client of a Redisson thread has none.
func (o *others) of(ctx context.Context, owner string) *record.Client {
	id := script.ClientOf(owner)
	if !script.IsMortise(owner) {
		return nil
	}
	r, reading, known := o.begin(id)
	if known {
		return r
	}
	within, cancel := context.WithTimeout(o.client.Lingerer(), lookUpWithin)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if reading != nil { // a crowd that is refused at once reads once
		select {
		case <-reading:
		case <-within.Done():
		}
	} else {
		_, _, _ = o.read(within, id)
		o.end(id)
	}
	return o.cached(owner)
}

// begin returns what is known of a client. If that is not enough, it returns what is closed when the
// read of another caller is over, or nil: then the caller has to read, and to call end.
func (o *others) begin(id string) (r *record.Client, reading chan struct{}, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.known[id]
	fresh := time.Since(k.at)
	switch {
	case ok && k.reading != nil:
		return nil, k.reading, false
	case ok && (fresh < settles || k.record != nil && fresh < freshFor):
		return k.record, nil, true
	}
	o.set(id, knownClient{k.record, time.Now(), make(chan struct{})})
	return nil, nil, false
}

// end ends a read that begin has begun.
func (o *others) end(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k, ok := o.known[id]; ok && k.reading != nil { // Redis has not answered
		close(k.reading)
		delete(o.known, id)
	}
}

// read reads the records of clients; those without one are left out. It returns the clients for which Redis has not answered, and
// the first error.
func (o *others) read(ctx context.Context, ids ...string) (list []*record.Client, unread []string, err error) {
	c := o.client
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = keyspace.ClientRecord(c.Config().Prefix, id)
	}
	for i, text := range script.ReadClients(ctx, c.Driver(), record.MaxBody, keys...) {
		if text.Err != nil {
			if err == nil {
				err = text.Err
			}
			if class := driver.ClassOf(text.Err); class == driver.Unknown || class == driver.NotSent {
				unread = append(unread, ids[i])
			}
			continue
		}
		var r *record.Client
		if body, ok := record.Parse(text.Body); ok && !text.At.IsZero() {
			r = &record.Client{ID: ids[i], Body: body, Read: time.Now(), Now: text.Now, At: text.At, Edition: text.Edition, Asked: text.Asked}
			list = append(list, r)
		}
		o.note(ids[i], r)
	}
	return list, unread, err
}

// shard returns the server of a cluster that has the record of a client.
func (o *others) shard(id string) string {
	return o.client.Driver().Shard(keyspace.ClientRecord(o.client.Config().Prefix, id))
}

// noteSilent notes that a server of a cluster does not answer. That it is not waited for as long meanwhile makes it no more silent.
func (o *others) noteSilent(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.silent == nil {
		o.silent = make(map[string]time.Time)
	}
	if at, ok := o.silent[server]; !ok || time.Since(at) >= silentFor {
		o.silent[server] = time.Now()
	}
}

// isSilent reports whether a server of a cluster has not answered a moment ago. Where there is only one, whose address is empty, that
// is none of them: it is asked again.
func (o *others) isSilent(server string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.silent[server]
	return ok && server != "" && time.Since(at) < silentFor
}

// noteAnswer notes that a server of a cluster has answered.
func (o *others) noteAnswer(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.silent, server)
}

// note notes what was read of a client.
func (o *others) note(id string, r *record.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.known[id]; k.reading != nil {
		close(k.reading)
	}
	o.set(id, knownClient{record: r, at: time.Now()})
}

// set sets what is known of a client. It must be called with o.mu held.
func (o *others) set(id string, k knownClient) {
	if o.known == nil {
		o.known = make(map[string]knownClient)
	}
	if len(o.known) >= mostKnown {
		for other, known := range o.known {
			if known.reading == nil {
				delete(o.known, other)
			}
		}
	}
	o.known[id] = k
}

// RecordsOf returns the records of the clients of owners, by the id of the client: no more than
// are read at once. Those that cannot be read within a second are left out. silent reports that the only server there is did
// not answer.
func (r *Recorder) RecordsOf(ctx context.Context, owners []string) (found map[string]*record.Client, silent bool) {
	var ids []string
	found = make(map[string]*record.Client)
	for _, owner := range owners {
		id := script.ClientOf(owner)
		if _, ok := found[id]; !ok && script.IsMortise(owner) && len(ids) < recordsAtOnce && !r.others.isSilent(r.others.shard(id)) {
			found[id] = nil
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, false
	}
	within, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	list, unread, _ := r.others.read(within, ids...)
	if ctx.Err() == nil { // else the caller was in a hurry
		for _, id := range unread {
			server := r.others.shard(id)
			r.others.noteSilent(server)
			silent = silent || server == ""
		}
	}
	clear(found)
	for _, one := range list {
		found[one.ID] = one
	}
	return found, silent
}

// Identify implements [lease.Recorder].
func (r *Recorder) Identify(ctx context.Context, err error) {
	c := r.client
	known := func(owner string) *record.Client { return r.others.of(ctx, owner) }
	switch {
	case c.Config().Identity == nil:
		known = func(string) *record.Client { return nil }
	case ctx.Err() != nil || outcome.IsOverdue(err):
		known = r.others.cached
	}
	c.Errors().Identify(err, c.ID(), known)
}

// Known implements [lease.Recorder].
func (r *Recorder) Known(owner string) *record.Client { return r.others.cached(owner) }

// readBlockers reads the records of the holders that are in the way, unless it did so before, for
// the errors and the events of the waits. It returns when to try again to name those that were not
// found, less and less often; 0 if all are known. A holder that has just come has no record yet.
func (r *Recorder) readBlockers(ctx context.Context, s *waiting.Scene) time.Duration {
	var ids []string
	missing := false
	now := time.Now()
	o := &r.others
	for _, owner := range s.Blockers {
		id := script.ClientOf(owner)
		o.mu.Lock()
		k, ok := o.known[id]
		o.mu.Unlock()
		known := ok && k.record != nil && k.record.Hold(owner) != nil
		if script.IsMortise(owner) && (!known || now.Sub(k.at) >= freshFor) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		missing = missing || script.IsMortise(owner) && !known
	}
	if len(ids) > 0 {
		_, _, _ = o.read(ctx, ids...)
	}
	if !missing {
		r.misses = 0
		return 0
	}
	r.misses++
	return min(settles<<min(r.misses-1, 10), record.Renew)
}
