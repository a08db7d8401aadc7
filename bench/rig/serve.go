package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// endGrace is how long a worker waits for goroutines that do not end.
const endGrace = 5 * time.Second

// Open connects a system to a server. The returned function closes what Open has opened.
type Open func(ctx context.Context, addr string) (locker workload.Locker, close func(), err error)

// Serve is a worker: it runs the commands from in, until in ends, and answers on out. Find returns
// how a system is opened, nil if it is not known.
func Serve(ctx context.Context, in io.Reader, out io.Writer, find func(system string) Open) error {
	w := &worker{ctx: ctx, find: find, close: func() {}}
	defer func() { w.close() }()
	commands, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := w.do(c)
		if err != nil {
			a = &answer{Is: "failed", Error: err.Error()}
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// worker is the state of Serve.
type worker struct {
	ctx    context.Context
	find   func(string) Open
	order  *Order
	locker workload.Locker
	gate   *workload.Gate
	close  func()
	run    workload.Running
}

func (w *worker) do(c command) (*answer, error) {
	a := &answer{Is: answers[c.Do]}
	switch {
	case c.Do == "open" && c.Order != nil:
		return a, w.open(c.Order)
	case c.Do == "start" && w.locker != nil:
		var err error
		w.run, err = workload.Start(w.ctx, w.locker, w.order.Spec, w.gate)
		return a, err
	case c.Do == "begin" && w.run != nil:
		w.run.Begin()
		return a, nil
	case c.Do == "end" && w.run != nil:
		a.Result = w.run.End(cmp.Or(w.order.Grace, endGrace))
		return a, nil
	}
	return nil, fmt.Errorf("the command %q makes no sense here", c.Do)
}

func (w *worker) open(o *Order) error {
	open := w.find(o.System)
	if open == nil {
		return fmt.Errorf("there is no system %q", o.System)
	}
	gate, err := mapGate(o.Gate)
	if err != nil {
		return err
	}
	locker, end, err := open(w.ctx, o.Addr)
	if err != nil {
		return fmt.Errorf("open %s at %s: %w", o.System, o.Addr, err)
	}
	w.order, w.locker, w.gate, w.close = o, locker, gate, end
	return nil
}
