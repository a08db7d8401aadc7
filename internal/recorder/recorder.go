package recorder

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Recorder keeps the record of a client in Redis: what its process is, holds and waits for. It
// looks at what there is a moment after it has changed, and writes what has lasted for longer, so
// that short holds cost nothing. It deletes the record once there is nothing to record.
//
// Nothing about locks depends on it: if Redis refuses, others see less.
type Recorder struct {
	client *lease.Client
	queues *waiting.Queues
	others others
	asleep bool        // there is nothing to look at
	known  bool        // the client has a record
	self   record.Body // the identity; without holds and waits
	link   func(call uint64) string

	soon atomic.Bool // a look comes in settles at the latest

	mu      sync.Mutex // guards the fields up to running, and follows Client.Mu
	timer   *time.Timer
	due     time.Time      // when timer fires; zero if it is not set
	running bool           // look runs, or is about to
	again   bool           // something has changed while look ran
	told    bool           // a message asks the client to look at its record
	left    *waiting.Scene // what the client held when it was closed; nil if that was nothing
	entries []entry        // of histories, not yet written
	closed  bool           // it looks no more
	ended   bool           // what is left may be written: the client's holds have ended

	// The fields below are only used by look, which runs once at a time.
	body     string // as last written; empty if there is no record
	edition  uint64
	sure     uint64 // the edition that Redis has confirmed last
	written  time.Time
	indexed  time.Time
	offset   time.Duration // what Redis' clock was ahead of the client's time, since the epoch
	records  backoff       // of its record
	history  backoff       // of histories
	misses   int           // looks in a row that did not find the record of a holder
	listener *hub.Listener
	seen     []script.ClientRequest // those that were handled
	since    map[any]int64
	cycles   cycles
}

const (
	// settles is how long a hold or a wait must last to be recorded.
	settles = 250 * time.Millisecond
	// writeEvery is how long after a write the next one comes, if something has changed.
	writeEvery = time.Second
	// writeWithin bounds a write.
	writeWithin = 2 * time.Second
	// toldPause is how long after a message the client looks at its record.
	toldPause = 50 * time.Millisecond
)

// New returns the recorder of a client with those queues, whose recorder it becomes. Without an identity, a history and an observer it has nothing to look at.
func New(qs *waiting.Queues) *Recorder {
	c := qs.Client
	r := &Recorder{client: c, queues: qs, link: c.Config().Link, cycles: make(cycles)}
	r.others.client = c
	r.asleep = c.Config().Identity == nil && c.Config().History == 0 && c.Config().Observe == nil
	c.Record(r)
	if c.Config().Identity != nil {
		r.self, r.known = *c.Config().Identity, true
	}
	return r
}

// Of returns the recorder of c.
func Of(c *lease.Client) *Recorder { return c.Recorder().(*Recorder) }

// Changed implements [lease.Recorder].
func (r *Recorder) Changed() {
	if !r.asleep && !r.soon.Load() {
		r.lookWithin(settles)
	}
}

// lookWithin makes the recorder look in d at the latest.
func (r *Recorder) lookWithin(d time.Duration) {
	if r.asleep {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d <= settles {
		r.soon.Store(true)
	}
	switch at := time.Now().Add(d); {
	case r.closed:
	case r.running:
		r.again = true
	case r.timer == nil:
		r.timer = time.AfterFunc(d, r.fire)
		r.due = at
	case r.due.IsZero() || at.Before(r.due):
		r.timer.Reset(d)
		r.due = at
	}
}

// fire starts a look.
func (r *Recorder) fire() {
	r.mu.Lock()
	if r.closed || r.running || r.due.IsZero() {
		r.mu.Unlock()
		return
	}
	r.running, r.again, r.due = true, false, time.Time{}
	r.soon.Store(false)
	r.client.Spawn(r.run) // before Leave, so Client.Close still waits for it
	r.mu.Unlock()
}

// run looks once, and sets the time for the next look.
func (r *Recorder) run(ctx context.Context) {
	next := r.look(ctx)
	r.mu.Lock()
	r.running = false
	again, closed, ended := r.again, r.closed, r.ended
	r.soon.Store(false)
	r.mu.Unlock()
	if closed {
		if ended { // else End does it
			r.finish(ctx)
		}
		return
	}
	if again {
		next = sooner(next, settles)
	}
	if next > 0 {
		r.lookWithin(next)
	}
}

// look writes what there is to record, and returns when to look again; 0 if there is nothing. Redis may
// refuse the record, the histories, or the records of others, and accept the rest.
func (r *Recorder) look(ctx context.Context) time.Duration {
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	next := r.flush(ctx, now)
	scene := r.queues.Scene(now, settles)
	r.cut(scene)
	if r.known {
		next = sooner(next, r.tell(ctx, scene, now))
	}
	return sooner(next, r.readBlockers(ctx, scene))
}

// sooner returns the shorter of two times until a look; 0 stands for no look.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// tell writes the record and looks for cycles, and returns when to look again.
func (r *Recorder) tell(ctx context.Context, s *waiting.Scene, now time.Time) time.Duration {
	if wait := r.records.wait(now); wait > 0 {
		return wait
	}
	next, err := r.write(ctx, s, now)
	if err != nil {
		r.records.tried(now, err)
		r.client.Counters.Unrecorded.Add(1)
		return r.records.wait(now)
	}
	if s.Nested {
		next = cmp.Or(min(next, r.cycles.look(ctx, r, s)), settles)
	}
	return next
}

// write writes the record if it must be written, and returns when to look again.
func (r *Recorder) write(ctx context.Context, s *waiting.Scene, now time.Time) (time.Duration, error) {
	if len(s.Holds)+len(s.Waits) == 0 && s.Young == 0 {
		return 0, r.erase(ctx)
	}
	next := record.Renew
	if s.Young > 0 {
		next = settles
	}
	if len(s.Holds)+len(s.Waits) == 0 && r.body == "" {
		return next, nil // too short so far
	}
	if err := r.index(ctx, now); err != nil {
		return 0, err
	}
	text := r.text(s)
	if wait := r.dueAt(s, text).Sub(now); wait > 0 && r.body != "" {
		return min(next, wait), nil
	}
	if s.Nested {
		next = min(next, settles)
	}
	return next, r.send(ctx, text, now)
}

// dueAt returns when the record, which is text now, must be written.
func (r *Recorder) dueAt(s *waiting.Scene, text string) time.Time {
	switch {
	case r.takeTold():
		return r.written
	case s.Nested:
		return r.written.Add(settles) // others may wait for its edition
	case text == r.body, s.Crowded(): // each look sees others of so many
		return r.written.Add(record.Renew)
	}
	return r.written.Add(writeEvery)
}

// send writes the record, and notifies the holds whose release is asked for.
func (r *Recorder) send(ctx context.Context, text string, now time.Time) error {
	c := r.client
	clock, asked, err := r.put(ctx, text)
	if err != nil {
		return err
	}
	c.Counters.Records.Add(1)
	r.records.tried(now, nil)
	r.body, r.written, r.seen, r.sure = text, now, nil, r.edition
	r.offset = clock.Sub(time.UnixMilli(0)) - c.Time(time.Now())
	r.listen()
	for _, a := range asked {
		r.seen = append(r.seen, a)
		r.revoke(a.Lease, a.Text)
	}
	return nil
}

// put writes the next edition of the record, and returns Redis' time, and the requests to release that are in it.
func (r *Recorder) put(ctx context.Context, text string) (clock time.Time, asked []script.ClientRequest, err error) {
	c := r.client
	r.edition++
	return script.WriteClient(ctx, c.Driver(), script.ClientWrite{
		Key: keyspace.ClientRecord(c.Config().Prefix, c.ID()), Body: text, Edition: r.edition, TTL: record.TTL, Seen: r.seen,
	})
}

// index keeps the client in the index, and learns Redis' time.
func (r *Recorder) index(ctx context.Context, now time.Time) error {
	if r.body != "" && now.Sub(r.indexed) < record.Renew {
		return nil
	}
	c := r.client
	clock, err := script.IndexClient(ctx, c.Driver(), keyspace.ClientIndex(c.Config().Prefix), c.ID(), record.TTL)
	if err == nil {
		r.indexed = now
		r.offset = clock.Sub(time.UnixMilli(0)) - c.Time(time.Now())
	}
	return err
}

// erase deletes the record, if there is one.
func (r *Recorder) erase(ctx context.Context) error {
	if r.body == "" {
		return nil
	}
	c := r.client
	r.edition++
	_, _, err := script.WriteClient(ctx, c.Driver(), script.ClientWrite{Key: keyspace.ClientRecord(c.Config().Prefix, c.ID()), Edition: r.edition, TTL: record.TTL})
	if err == nil {
		_, err = script.IndexClient(ctx, c.Driver(), keyspace.ClientIndex(c.Config().Prefix), c.ID(), 0)
	}
	if err != nil {
		return err
	}
	r.body, r.since, r.seen = "", nil, nil
	if r.listener != nil {
		r.listener.Close()
		r.listener = nil
	}
	return nil
}

// listen subscribes to the channel whose messages ask the client to look at its record. The record has
// what matters: a message only makes the client look at once.
func (r *Recorder) listen() {
	c := r.client
	if r.listener == nil && c.Conn().Known() && (!c.Conn().Cluster() || c.Conn().Publish() != script.Classic) {
		r.listener = c.Hub().ListenFor(keyspace.ClientChannel(c.Config().Prefix, c.ID()), waiting.OwnSubscribeMode(c.Conn()), func(string) bool {
			r.mu.Lock()
			r.told = true
			r.mu.Unlock()
			r.lookWithin(toldPause) // any client may publish
			return false
		}, nil)
	}
}

// takeTold reports, once, whether a message has asked the client to look at its record.
func (r *Recorder) takeTold() (told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told, r.told = r.told, false
	return told
}

// text returns the record of what there is. An instant that was recorded once stays as it was.
func (r *Recorder) text(s *waiting.Scene) string {
	b := r.self
	since := make(map[any]int64, len(s.Holds)+len(s.Waits))
	at := func(of any, began time.Duration) int64 {
		ms, ok := r.since[of]
		if !ok {
			ms = (r.offset + began).Milliseconds()
		}
		since[of] = ms
		return ms
	}
	for _, h := range s.Holds {
		one := record.Hold{Name: h.Name(), Kind: h.Traits().Kind, Owner: h.ID(), Since: at(h, h.Acquired()), Token: h.FencingToken()}
		if r.link != nil {
			if call := h.CallSerial(); call != 0 {
				one.Link = record.CutLink(r.link(call))
			}
		}
		b.Holds = append(b.Holds, one)
	}
	for i := range s.Waits {
		w := &s.Waits[i]
		w.Since = at(w.Serial, w.Came)
		b.Waits = append(b.Waits, w.Wait)
	}
	b.HoldCount, b.WaitCount = s.Held, s.Waiting
	if s.Nested {
		b.Confirmed = r.sure
	}
	r.since = since
	return b.Text()
}

// Leave implements [lease.Recorder].
func (r *Recorder) Leave(held []*lease.Lease) {
	left := new(waiting.Scene)
	for _, l := range held {
		if !l.Keeps() {
			left.Holds = append(left.Holds, l)
		}
	}
	left.Held = len(left.Holds)
	r.cut(left)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed = true; left.Held > 0 {
		r.left = left
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}

// cut leaves the oldest holds, as many as a record may list.
func (r *Recorder) cut(s *waiting.Scene) {
	slices.SortFunc(s.Holds, func(a, b *lease.Lease) int {
		return cmp.Or(cmp.Compare(a.Acquired(), b.Acquired()), cmp.Compare(a.ID(), b.ID()))
	})
	s.Holds = s.Holds[:min(len(s.Holds), record.Most)]
}

// End implements [lease.Recorder]. The record is deleted, if Redis answers
// at once, unless the client held something: then it is written once more, and says until its end whose leases those were.
func (r *Recorder) End() {
	if r.asleep {
		return
	}
	r.mu.Lock()
	r.ended = true
	running := r.running
	r.mu.Unlock()
	if !running { // else that look finishes
		r.client.Spawn(r.finish)
	}
}

// finish writes what is left to write after Leave.
func (r *Recorder) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	r.history = backoff{}
	now := time.Now()
	r.flush(ctx, now)
	switch {
	case !r.known:
	case r.left == nil:
		_ = r.erase(ctx)
	case r.index(ctx, now) == nil:
		_, _, _ = r.put(ctx, r.text(r.left))
	}
}
