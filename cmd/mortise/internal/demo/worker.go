package demo

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

// The orders of the parent, as lines on the worker's standard input. At the end of the input, the
// worker finishes its turn and ends.
const (
	orderStart = "start" // start with the first turn
	orderStall = "stall" // stop in the middle of the next update, and wait to be killed
)

const (
	lockName = "demo:counter"
	// The duration of an update. Without the lock, another's update can be lost in this time.
	thinking = 20 * time.Millisecond
	// Between two turns a worker pauses for up to twice this time.
	pause = 5 * time.Millisecond
	// The limit for the last turn of a worker that was asked to end; it begins with waiting for
	// the others' turns.
	lastTurn = 3 * time.Second
)

// Worker is one process of the demonstration.
type Worker struct {
	Number int
	File   string        // the file with the number
	Server string        // the URL of the embedded Redis
	Lease  time.Duration // 0: work without the lock

	out     io.Writer
	lock    *mortise.Lock
	started chan struct{}
	stall   chan struct{}
	stop    chan struct{}
}

// Run works until the end of orders, and reports to out.
func (w *Worker) Run(ctx context.Context, orders io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.out = out
	w.started, w.stall, w.stop = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { // ends with the input, that is with the process
		w.obey(orders)
		time.AfterFunc(lastTurn, cancel)
		close(w.stop)
	}()
	if err := w.work(ctx); err != nil {
		return err
	}
	return w.say(workerEnds, 0, "")
}

// obey reads orders to their end.
func (w *Worker) obey(orders io.Reader) {
	start, stall := sync.OnceFunc(func() { close(w.started) }), sync.OnceFunc(func() { close(w.stall) })
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		switch lines.Text() {
		case orderStart:
			start()
		case orderStall:
			stall()
		}
	}
}

func (w *Worker) work(ctx context.Context) (failed error) {
	if w.Lease > 0 {
		d, err := connect.Open(ctx, w.Server)
		if err != nil {
			return err
		}
		client := mortise.New(d, &mortise.Options{TTL: w.Lease, RetryFor: w.Lease})
		defer func() { failed = errors.Join(failed, client.Close()) }()
		w.lock = client.Lock(lockName)
	}
	if err := w.say(ready, 0, ""); err != nil {
		return err
	}
	select {
	case <-w.started:
	case <-w.stop:
		return nil
	}
	for !w.stopped() {
		if err := w.turn(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, rand.N(2*pause)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// turn acquires the lock, makes one update, and releases the lock.
func (w *Worker) turn(ctx context.Context) error {
	if err := w.say(workerAsks, 0, ""); err != nil {
		return err
	}
	if w.lock == nil {
		return w.inside(ctx)
	}
	hold, ctx, err := w.lock.Lock(ctx)
	if err != nil {
		return err
	}
	err = w.inside(ctx)
	uerr := hold.Unlock()
	switch {
	case err != nil && !errors.Is(err, mortise.ErrLost):
		return err
	case err == nil && !outlasted(uerr):
		return uerr
	}
	return w.say(workerLost, 0, cmp.Or(err, uerr).Error())
}

// outlasted reports whether an error of Unlock only says that the lease has ended, or may have. If
// Redis has not answered until then, that is no reason to give up: the next Lock finds out whether
// it serves, and waits longer.
func outlasted(err error) bool {
	return errors.Is(err, mortise.ErrLost) || errors.Is(err, mortise.ErrUnknownOutcome) || errors.Is(err, mortise.ErrUnreachable)
}

// inside is the work that the lock protects.
func (w *Worker) inside(ctx context.Context) error {
	if err := w.say(workerEnters, 0, ""); err != nil {
		return err
	}
	err := w.update(ctx)
	return errors.Join(err, w.say(workerLeaves, 0, ""))
}

// update adds 1 to the number in the file, without regard to others.
func (w *Worker) update(ctx context.Context) error {
	f, err := os.OpenFile(w.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := readCounter(f)
	if err != nil {
		return err
	}
	select {
	case <-w.stall:
		if err := w.say(workerStalls, n, ""); err != nil {
			return err
		}
		select {
		case <-w.stop: // only if the parent does not kill this process
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	default:
	}
	if err := sleep(ctx, thinking); err != nil {
		return err
	}
	if err := writeCounter(f, n+1); err != nil {
		return err
	}
	return w.say(workerWrites, n+1, "")
}

func (w *Worker) say(what action, value int, text string) error {
	return event{At: time.Now(), Worker: w.Number, What: what, Value: value, Text: text}.write(w.out)
}

// sleep waits for d. If ctx has ended by then, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		if ctx.Err() == nil {
			return nil
		}
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The number has a fixed width, so that one write replaces all of it: without the lock, updates are
// lost, not digits.
const counterFormat = "%8d\n"

func writeCounter(f io.WriterAt, n int) error {
	_, err := f.WriteAt(fmt.Appendf(nil, counterFormat, n), 0)
	return err
}

func readCounter(f io.ReaderAt) (int, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("the counter's file does not hold a number: %w", err)
	}
	return n, nil
}
