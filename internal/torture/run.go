package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Subject is a library that is put to the test.
type Subject interface {
	// Take acquires a load. It waits until ctx ends, or for limit at most if that is not 0.
	Take(ctx context.Context, load Load, limit time.Duration) (Held, context.Context, error)
	// Class sorts an error of Take or Unlock: "" is success, and what begins with "bad" must
	// never happen.
	Class(err error) string
	// Lost reports whether an error, or the cause of the end of a context, says that a hold was
	// lost.
	Lost(err error) bool
	// Close closes the library. Nothing of it may be left running.
	Close() error
}

// Held is what Take has acquired.
type Held interface {
	Valid() bool
	Token() int64
	Owner() string
	Unlock() error
}

// Run is the life of a client. It returns when the witness has had enough. Leaks returns an error
// that says what still runs after the subject was closed.
func Run(c Config, open func(Config) (Subject, error), leaks func() error) error {
	subject, err := patiently(c, open)
	if err != nil {
		return err
	}
	before := heap()
	errs := make([]error, c.Goroutines)
	var all sync.WaitGroup
	for i := range c.Goroutines {
		all.Go(func() { errs[i] = work(c, i, subject) })
	}
	all.Wait()
	m := Message{Op: Bye}
	if err := subject.Close(); err != nil {
		m.Bad = "close: " + err.Error()
	}
	m.Heap = heap() - before
	if err := leaks(); err != nil {
		m.Bad = "left running after the client was closed: " + err.Error()
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	l, err := dial(c, -1)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	_, err = l.say(m)
	return err
}

// patiently opens the subject, which may fail for a while if the client starts in bad times.
func patiently(c Config, open func(Config) (Subject, error)) (s Subject, err error) {
	for range 100 {
		if s, err = open(c); err == nil {
			return s, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil, fmt.Errorf("open: %w", err)
}

func heap() int64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// worker is one goroutine of a client.
type worker struct {
	Config
	*line
	subject Subject
	random  *rand.Rand
}

func work(c Config, i int, s Subject) error {
	l, err := dial(c, i)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	w := &worker{c, l, s, rand.New(rand.NewPCG(c.Seed, uint64(c.Client)<<32|uint64(i)))}
	for {
		load := w.random.IntN(len(c.Loads))
		r, err := w.say(Message{Op: Want, Load: load})
		if err != nil || r.Stop {
			return err
		}
		if err := w.once(w.asked(load, r), r.Calm); err != nil {
			return err
		}
	}
}

// asked returns a load as the witness wants it.
func (w *worker) asked(load int, r Reply) Load {
	l := w.Loads[load]
	if r.Name != "" {
		l.Name = r.Name
	}
	l.Role = r.Role
	return l
}

// once asks for a load and, if it gets it, works under it.
func (w *worker) once(load Load, calm bool) error {
	ctx, limit := context.Background(), time.Duration(0)
	if load.Meets { // the others may never come
		limit = w.TTL/4 + w.upTo(w.TTL)
	}
	if !calm {
		switch w.random.IntN(6) {
		case 0: // the caller gives up
			c, cancel := context.WithCancel(ctx)
			defer time.AfterFunc(w.upTo(w.TTL), cancel).Stop()
			defer cancel()
			ctx = c
		case 1:
			limit = time.Millisecond + w.upTo(w.TTL)
		}
	}
	held, lctx, err := w.subject.Take(ctx, load, limit)
	if err != nil {
		_, lost := w.say(Message{Op: Miss, Class: w.subject.Class(err), Text: err.Error()})
		time.Sleep(20 * time.Millisecond)
		return lost
	}
	return w.hold(load, held, lctx, calm)
}

func (w *worker) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

// hold is a critical section: it reads the register, works, and writes.
func (w *worker) hold(load Load, held Held, ctx context.Context, calm bool) error {
	var noticed atomic.Int64
	defer context.AfterFunc(ctx, func() { noticed.Store(Now()) })()
	last := int64(0)
	valid := func() { // the hold is valid at an instant before the question
		if at := Now(); held.Valid() {
			last = at
		}
	}
	valid()
	r, err := w.say(Message{Op: Got, At: last, Token: held.Token(), Owner: held.Owner()})
	if err != nil {
		return err
	}
	length := w.upTo(10 * time.Millisecond)
	if w.random.IntN(12) == 0 && !calm {
		length = w.TTL/4 + w.upTo(2*w.TTL)
	}
	for begin := time.Now(); time.Since(begin) < length && ctx.Err() == nil; {
		time.Sleep(min(length, 10*time.Millisecond))
		valid()
		s, err := w.say(Message{Op: Still, At: last})
		if err != nil {
			return err
		}
		if s.Calm {
			break
		}
	}
	careless := w.random.IntN(3) == 0
	if careless || ctx.Err() == nil {
		if _, err := w.say(Message{Op: Write, Token: held.Token(), Version: r.Version, Careless: careless}); err != nil {
			return err
		}
	}
	valid()
	if load.Meets {
		if _, err := w.say(Message{Op: Leave, At: last}); err != nil {
			return err
		}
	}
	return w.release(held, ctx, last, &noticed)
}

func (w *worker) release(held Held, ctx context.Context, last int64, noticed *atomic.Int64) error {
	lost := w.subject.Lost(context.Cause(ctx))
	err := held.Unlock()
	m := Message{Op: End, At: last, Class: w.subject.Class(err), Lost: lost || w.subject.Lost(err), Noticed: noticed.Load()}
	if err != nil {
		m.Text = err.Error()
	}
	switch {
	case ctx.Err() == nil:
		m.Bad = "the context goes on after Unlock"
	case held.Valid():
		m.Bad = "the hold is valid after Unlock"
	case lost && err == nil:
		m.Bad = "Unlock reports no loss, but the context has: " + context.Cause(ctx).Error()
	}
	_, err = w.say(m)
	return err
}
