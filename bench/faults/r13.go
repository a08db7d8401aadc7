package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
)

// r13 kills waiters of a fair lock.
var r13 = row{
	name:    "r13",
	title:   "waiters of a fair lock are killed (SIGKILL), the first among them",
	n:       5,
	offered: func(s *contender.System) bool { return s.Fair },
	run:     runR13,
}

// queues are the cases: the waiters in their order, x those that are killed.
var queues = []struct {
	name, order string
	defaults    bool // leases and times as they are without any setting
}{
	{"nobody dies", "123", false},
	{"the first dies", "x123", false},
	{"three die, the first among them", "x1x2x3", false},
	{"the first dies; all settings are the defaults", "x123", true},
}

func runR13(ctx context.Context, t *trials) error {
	for _, q := range queues {
		for i := range t.n {
			if q.defaults && i > 0 {
				break // it can take minutes
			}
			o := outcome{Case: q.name}
			err := queueing(ctx, t, &o, q.order, q.defaults)
			t.close()
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			t.record(o)
		}
	}
	return nil
}

func queueing(ctx context.Context, t *trials, o *outcome, order string, defaults bool) error {
	const name = "queue"
	config := contender.Config{Lease: t.leaseOr(6 * time.Second), FairWait: 5 * time.Second, Fair: true}
	limit := 20 * config.Lease
	if defaults {
		config.Lease, config.FairWait, limit = 0, 0, 10*time.Minute
	}
	s, err := t.startServer()
	if err != nil {
		return err
	}
	config.Addr = s.addr
	var processes [3]*process
	for i := range processes {
		if processes[i], err = t.startProcess(ctx, config); err != nil {
			return err
		}
	}
	holder, living, doomed := processes[0], processes[1], processes[2]
	if _, err := holder.must(ctx, lock(name, "first", 10*time.Second)); err != nil {
		return err
	}
	var answers []<-chan contender.Answer // of those that live
	for i, who := range order {
		p := living
		if who == 'x' {
			p = doomed
		}
		answer, err := enqueue(ctx, s, p, config, name, i, limit)
		if err != nil {
			return err
		}
		if who != 'x' {
			answers = append(answers, answer)
		}
	}
	doomed.kill()
	o.Hit = true
	if _, err := holder.must(ctx, unlock("first")); err != nil {
		return err
	}
	before, err := s.commands()
	if err != nil {
		return err
	}
	asked := func(since time.Time) error {
		after, err := s.commands()
		if waited := time.Since(since).Seconds(); waited > 0.1 { // otherwise it is no rate
			o.note("commands per second meanwhile", float64(after-before)/waited)
		}
		return err
	}
	return serveAll(ctx, o, living, answers, order, limit, asked)
}

// enqueue makes a client of its own wait, and returns when it is in the queue.
func enqueue(ctx context.Context, s *server, p *process, c contender.Config, name string, i int, limit time.Duration) (<-chan contender.Answer, error) {
	client := fmt.Sprint("waiter-", i)
	if err := p.open(ctx, client, c); err != nil {
		return nil, err
	}
	request := lock(name, client, limit)
	request.Client = client
	answer, err := p.start(request)
	if err != nil {
		return nil, err
	}
	err = within(20*time.Second, client+" is in the queue", func() (bool, error) {
		length, err := s.do("LLEN", "redisson_lock_queue:{"+name+"}")
		return length == int64(i+1), err
	})
	return answer, err
}

// grant is the answer to a waiter.
type grant struct {
	nth    int // of the living, in the order of the queue
	answer contender.Answer
	err    error
}

// serveAll lets each of the living acquire and release the lock, and notes how long the first has
// waited for it since it was free, and whether the order was kept. It calls first when the first has
// the lock, with the time since when it was free.
func serveAll(ctx context.Context, o *outcome, p *process, answers []<-chan contender.Answer, order string, limit time.Duration,
	first func(time.Time) error,
) error {
	free := time.Now()
	grants := make(chan grant, len(answers))
	for nth, answer := range answers {
		go func() {
			a, err := p.await(ctx, answer, limit)
			grants <- grant{nth, a, err}
		}()
	}
	o.Said = "in order"
	for want := range answers {
		g := <-grants
		if g.err != nil {
			return g.err
		}
		if want == 0 {
			o.took("first waits", time.Since(free))
			if err := first(free); err != nil {
				return err
			}
		}
		if g.nth != want {
			o.Said = "out of order"
		}
		if g.answer.Error != "" {
			o.Said = "an error instead of the lock: " + g.answer.Is
			return nil
		}
		position := strings.IndexByte(order, byte('1'+g.nth))
		if _, err := p.must(ctx, unlock(fmt.Sprint("waiter-", position))); err != nil {
			return err
		}
	}
	o.took("last waits", time.Since(free))
	return nil
}
