package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
)

const (
	// detailFor is how long what was read of one lock is shown to all browsers before it is read again, doubtFor how
	// long if a look has seen something else, and historyFor its history; readLimit is how long reading may take, and keptFor how long a detail is kept that nobody asks for.
	detailFor, doubtFor, historyFor = time.Second, 200 * time.Millisecond, 5 * time.Second
	readLimit                       = 2 * time.Second
	keptFor                         = 30 * time.Second
	// mostDetails is how many locks can be looked at closely at the same time, and mostHistory how many
	// acquisitions of one are shown.
	mostDetails, mostHistory = 200, 100
)

// details are closer looks at locks.
type details struct {
	mu     sync.Mutex // guards the fields below
	read   map[string]*detail
	opened map[string]int // how many streams look at one
}

// detail is a closer look at one lock.
type detail struct {
	mu      sync.Mutex // guards the fields below; held while it is read, by one of those who want it
	asked   time.Time
	at      time.Time // when it was read
	old     time.Time // when the history was read
	unsure  bool      // it is known to have changed since
	err     error     // of the last time
	state   mortise.State
	queue   mortise.Queue
	history []mortise.Acquisition
}

// glance is a copy of what was read.
type glance struct {
	State   mortise.State
	Queue   mortise.Queue
	History []mortise.Acquisition
	Err     error
	At      time.Time // when it was read
	Read    bool      // there is something
}

// detail returns a closer look at a lock. If it is not to be read deeply, it has neither queue nor history. Doubt, which
// may be nil, says whether what was read already seems to be out of date.
func (p *poller) detail(name string, deep bool, doubt func(*glance) bool) glance {
	key := "n" + name
	if deep {
		key = "d" + name
	}
	d := p.details.of(key)
	if d == nil {
		return glance{Err: errTooManyDetails}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = time.Now()
	seen := d.glance()
	if age := time.Since(d.at); age >= detailFor || d.unsure || age >= doubtFor && doubt != nil && doubt(&seen) {
		ctx, cancel := context.WithTimeout(p.ctx, readLimit) // not that of a request: others wait for it, too
		defer cancel()
		d.unsure = false
		d.err = d.again(ctx, p.client(), name, deep)
	}
	return d.glance()
}

// outdated makes the next look at a lock read it again.
func (p *poller) outdated(name string) {
	for _, key := range []string{"n" + name, "d" + name} {
		if d := p.details.of(key); d != nil {
			d.mu.Lock()
			d.asked, d.unsure = time.Now(), true
			d.mu.Unlock()
		}
	}
}

// glance returns what was read. It must be called with mu held.
func (d *detail) glance() glance {
	return glance{State: d.state, Queue: d.queue, History: d.history, Err: d.err, At: d.at, Read: !d.at.IsZero()}
}

var errTooManyDetails = errors.New("too many locks are looked at closely at this moment")

// of returns the detail of a key; nil if there are too many that cannot be dropped.
func (l *details) of(key string) *detail {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.read[key]
	if d == nil && (len(l.read) < mostDetails || l.drop()) {
		d = &detail{asked: time.Now()}
		l.read[key] = d
	}
	return d
}

// drop drops the detail that was asked for least lately, and reports whether there was one. Those that a stream looks
// at stay, and those that are being read: this bounds how many are. It must be called with mu held.
func (l *details) drop() bool {
	var oldest string
	var asked time.Time
	for key, d := range l.read {
		if l.opened[key] > 0 || !d.mu.TryLock() {
			continue
		}
		if asked.IsZero() || d.asked.Before(asked) {
			oldest, asked = key, d.asked
		}
		d.mu.Unlock()
	}
	delete(l.read, oldest)
	return !asked.IsZero()
}

// keep keeps the closer look at a lock from being dropped until the returned function is called: a stream shows it.
func (l *details) keep(name string) (leave func()) {
	key := "d" + name // deep
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.opened[key]--; l.opened[key] == 0 {
			delete(l.opened, key)
		}
	}
}

// again reads it again.
func (d *detail) again(ctx context.Context, c *mortise.Client, name string, deep bool) (err error) {
	if d.state, err = c.Inspect(ctx, name); err != nil || !deep {
		d.at = time.Now()
		return err
	}
	var part *mortise.UnlistedError // the page says itself which servers are missing
	if d.queue, err = c.Queue(ctx, name); errors.As(err, &part) {
		err = nil
	}
	if err == nil && time.Since(d.old) >= historyFor {
		d.history, err = c.History(ctx, name, mostHistory)
		d.old = time.Now()
	}
	d.at = time.Now()
	return err
}

// forget drops what nobody has asked for lately.
func (l *details) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, d := range l.read {
		if !d.mu.TryLock() {
			continue // it is being read
		}
		if now.Sub(d.asked) > keptFor {
			delete(l.read, key)
		}
		d.mu.Unlock()
	}
}
