package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Request is a line to a process with clients. Requests with different holds are done at the same
// time, in any order.
type Request struct {
	ID int    `json:"id"`
	Do string `json:"do"`

	Client string  `json:"client,omitempty"` // open, close, lock
	Config *Config `json:"config,omitempty"` // open

	Name string        `json:"name,omitempty"` // lock
	Hold string        `json:"hold,omitempty"` // lock, again, check, write, lost, unlock
	Of   string        `json:"of,omitempty"`   // again: the hold whose owner acquires the lock once more
	Wait time.Duration `json:"wait,omitempty"` // lock, lost: at most
	Ask  bool          `json:"ask,omitempty"`  // write: only if check says that the lock is held
}

// What a request asks for. Write means that the holder writes to the resource now: the answer is
// the write.
const (
	Open   = "open"
	Close  = "close"
	Lock   = "lock"
	Again  = "again"
	Check  = "check"
	Write  = "write"
	Lost   = "lost"
	Unlock = "unlock"
)

// Answer is the line that answers a request.
type Answer struct {
	ID    int    `json:"id"`
	Error string `json:"error,omitempty"`
	Is    string `json:"is,omitempty"` // what the error means
	Token int64  `json:"token,omitempty"`
}

// What an error means.
const (
	Refused = "refused" // another owner has the lock
	Gone    = "gone"    // the lock was not held
	Silent  = "silent"  // the holder was not told of a loss
	Unknown = "unknown" // anything else
)

// Serve does what the requests from in ask for, until in ends, and answers on out.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{ctx: ctx, answers: json.NewEncoder(out), clients: map[string]opened{}, holds: map[string]held{}}
	requests := json.NewDecoder(in)
	for {
		var r Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil // what is still held ends with this process
		} else if err != nil {
			return err
		}
		go w.serve(r)
	}
}

type worker struct {
	ctx context.Context

	mu      sync.Mutex // guards the fields below
	answers *json.Encoder
	clients map[string]opened
	holds   map[string]held
}

type opened struct {
	Client
	system *System
}

type held struct {
	Hold
	system *System
}

func (w *worker) serve(r Request) {
	a := Answer{ID: r.ID}
	system, token, err := w.do(r)
	if err != nil {
		a.Error, a.Is = err.Error(), Unknown
		switch {
		case errors.Is(err, errSilent):
			a.Is = Silent
		case system == nil:
		case system.Refused(err):
			a.Is = Refused
		case system.Gone(err):
			a.Is = Gone
		}
	}
	a.Token = token
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.answers.Encode(a) // if nobody reads any more, this process ends soon
}

var errSilent = errors.New("the holder was not told")

func (w *worker) do(r Request) (s *System, token int64, err error) {
	switch r.Do {
	case Open:
		return nil, 0, w.open(r)
	case Close:
		w.mu.Lock()
		c := w.clients[r.Client]
		delete(w.clients, r.Client)
		w.mu.Unlock()
		c.Close()
		return nil, 0, nil
	case Lock:
		w.mu.Lock()
		c := w.clients[r.Client]
		w.mu.Unlock()
		h, err := c.Lock(w.ctx, r.Name, r.Wait)
		return w.keep(r, c.system, h, err)
	}
	w.mu.Lock()
	h := w.holds[r.Hold]
	if r.Do == Again {
		h = w.holds[r.Of]
	}
	w.mu.Unlock()
	switch r.Do {
	case Again:
		more, err := h.Hold.(Reentrant).Again()
		return w.keep(r, h.system, more, err)
	case Check:
		err = h.Check()
	case Write:
		if r.Ask {
			err = h.Check()
		}
	case Lost:
		select {
		case <-h.Lost():
		case <-time.After(r.Wait):
			err = errSilent
		}
	case Unlock:
		err = h.Unlock()
	default:
		err = fmt.Errorf("the request %q is not known", r.Do)
	}
	return h.system, h.Token(), err
}

func (w *worker) open(r Request) error {
	s := Find(r.Config.System)
	if s == nil || s.Open == nil {
		return fmt.Errorf("there is no system %q here", r.Config.System)
	}
	c, err := s.Open(w.ctx, *r.Config)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[r.Client] = opened{c, s}
	return nil
}

// keep remembers a hold under the name that the request gives it.
func (w *worker) keep(r Request, s *System, h Hold, err error) (*System, int64, error) {
	if err != nil {
		return s, 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[r.Hold] = held{h, s}
	return s, h.Token(), nil
}
