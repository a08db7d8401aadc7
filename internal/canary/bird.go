package canary

import (
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// How often the goroutine and the process of the canary are looked at.
const (
	tick = time.Millisecond
	ping = 5 * time.Millisecond
)

// bird is the canary of this process. It lives while trials run.
var bird struct {
	mu     sync.Mutex // guards the fields below, and those of the halves
	lap    *sync.Cond // a half has come around, or ended
	halves []*half
	late   map[*lateness]struct{} // of each trial
	stop   func()                 // ends the halves and the process, and waits for them
}

func init() { bird.lap = sync.NewCond(&bird.mu) }

// half is the goroutine of the canary, or what looks at its process.
type half struct {
	laps  int
	ended bool
}

// lateness is the longest of a trial, and, by half, the sum of those that an idle machine does not have: many small
// ones take as much of the time of what is measured as a large one.
type lateness struct {
	longest time.Duration
	sum     map[*half]time.Duration
}

// small is what an idle machine is late by.
const small = 2 * time.Millisecond

// observe begins to note how late the machine is, until end is called, which returns the longest.
func observe(t *testing.T) (end func() time.Duration) {
	t.Helper()
	bird.mu.Lock()
	defer bird.mu.Unlock()
	if len(bird.late) == 0 {
		if err := start(); err != nil {
			t.Fatalf("canary: %v", err)
		}
	}
	late := &lateness{sum: make(map[*half]time.Duration)}
	bird.late[late] = struct{}{}
	return func() time.Duration { return ended(late) }
}

// ended returns how late the machine was until now, at once or in all. Where the trial went on after a stall before the canary did,
// the lap that was interrupted knows of it.
func ended(late *lateness) time.Duration {
	bird.mu.Lock()
	for _, h := range bird.halves {
		for seen := h.laps; h.laps == seen && !h.ended; {
			bird.lap.Wait()
		}
	}
	most := late.longest
	for _, sum := range late.sum {
		most = max(most, sum)
	}
	delete(bird.late, late)
	stop := func() {}
	if len(bird.late) == 0 {
		stop, bird.stop = bird.stop, nil
	}
	bird.mu.Unlock()
	stop()
	return most
}

// note is called with how late the machine was at a moment. bird.mu is held.
func (h *half) note(late time.Duration) {
	for l := range bird.late {
		l.longest = max(l.longest, late)
		if late > small {
			l.sum[h] += late
		}
	}
}

// start starts both halves. bird.mu is held.
func start() error {
	cat := exec.Command("cat") // it answers with what it is sent
	in, err := cat.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cat.Start(); err != nil {
		return err
	}
	timer, process, end := new(half), new(half), make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() { timer.run(tick, end, func() error { return nil }) })
	both.Go(func() { process.run(ping, end, func() error { return echo(in, out) }) })
	bird.late, bird.halves = make(map[*lateness]struct{}), []*half{timer, process}
	bird.stop = func() {
		close(end)
		both.Wait()
		_ = in.Close()
		_ = cat.Wait() // it has nothing to say but what it was sent
	}
	return nil
}

// run calls f again and again, every so often, and notes how late it has returned, until end is closed.
func (h *half) run(every time.Duration, end <-chan struct{}, f func() error) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		due := time.Now().Add(every)
		timer.Reset(every)
		var err error
		select {
		case <-end:
			err = io.EOF
		case <-timer.C:
			err = f()
		}
		bird.mu.Lock()
		if err == nil {
			h.note(time.Since(due))
		}
		h.laps++
		h.ended = err != nil // also if the process was killed: the timer still tells
		bird.lap.Broadcast()
		bird.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func echo(in io.Writer, out io.Reader) error {
	b := []byte{'p'}
	if _, err := in.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(out, b)
	return err
}
