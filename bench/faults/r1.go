package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
)

// r1 freezes a holder until another process has the lock and has written.
var r1 = row{
	name:    "r1",
	title:   "a holder is frozen (SIGSTOP) for longer than its lease",
	n:       20,
	offered: everybody,
	run:     runR1,
}

// register is a resource outside Redis. With tokens it refuses a write whose token is older than
// one that it has seen.
type register struct {
	value  int
	newest int64
	fenced bool
}

// write writes a value that was made from another one, which was read before.
func (r *register) write(from, to int, token int64) string {
	if r.fenced && token < r.newest {
		return "refused by its token"
	}
	r.newest = max(r.newest, token)
	stale := r.value != from
	r.value = to
	if stale {
		return "accepted: an update is lost"
	}
	return "accepted"
}

const (
	frozenBefore  = "frozen before it asks whether it holds the lock, and writes"
	frozenBetween = "frozen after it asked, before it writes"
	frozenFenced  = "the same, with tokens"
)

func runR1(ctx context.Context, t *trials) error {
	for _, c := range []string{frozenBefore, frozenBetween, frozenFenced} {
		if c == frozenFenced && !t.system.Fenced {
			continue
		}
		if err := freezing(ctx, t, c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		t.close()
	}
	return nil
}

// freezing freezes several processes at the same time, each with one hold.
func freezing(ctx context.Context, t *trials, named string) error {
	const lanes = 4
	config := contender.Config{Lease: t.leaseOr(2 * time.Second), Fenced: named == frozenFenced}
	s, err := t.startServer()
	if err != nil {
		return err
	}
	config.Addr = s.addr
	next, err := t.startProcess(ctx, config)
	if err != nil {
		return err
	}
	var frozen [lanes]*process
	for i := range min(lanes, t.n) {
		if frozen[i], err = t.startProcess(ctx, config); err != nil {
			return err
		}
	}
	return t.each(lanes, func(lane, i int) error {
		f := freeze{name: fmt.Sprintf("frozen-%d", i), frozen: frozen[lane], next: next, lease: config.Lease}
		o := outcome{Case: named}
		f.register.fenced = named == frozenFenced
		if err := f.trial(ctx, &o, named == frozenBefore); err != nil {
			return err
		}
		t.record(o)
		return nil
	})
}

type freeze struct {
	name         string
	frozen, next *process
	lease        time.Duration
	register     register
}

func (f *freeze) trial(ctx context.Context, o *outcome, ask bool) error {
	mine, others := f.name+"/1", f.name+"/2"
	first, err := f.frozen.must(ctx, lock(f.name, mine, 10*time.Second))
	if err != nil {
		return err
	}
	read := f.register.value
	if _, err := f.frozen.must(ctx, contender.Request{Do: contender.Check, Hold: mine}); err != nil {
		return err
	}
	if err := f.frozen.freeze(); err != nil {
		return err
	}
	start := time.Now()
	second, err := f.next.must(ctx, lock(f.name, others, 5*f.lease))
	if err != nil {
		return err
	}
	o.took("taken over", time.Since(start))
	f.register.newest = max(first.Token, second.Token) // the newer holder has read, with its token
	write := contender.Request{Do: contender.Write, Hold: others, Ask: ask}
	if _, err := f.next.must(ctx, write); err != nil {
		return err
	}
	if got := f.register.write(read, read+1, second.Token); got != "accepted" {
		return fmt.Errorf("the write of the new holder is %s", got)
	}
	o.Hit = true

	// The request lies ready when the process goes on.
	write.Hold = mine
	answer, err := f.frozen.start(write)
	if err != nil {
		return err
	}
	thawed := time.Now()
	if err := f.frozen.thaw(); err != nil {
		return err
	}
	a, err := f.frozen.await(ctx, answer, f.lease)
	if err != nil {
		return err
	}
	o.Said = "not written: told before the write"
	if a.Error == "" {
		o.Said = f.register.write(read, read+10, first.Token)
	}
	told, err := f.frozen.ask(ctx, contender.Request{Do: contender.Lost, Hold: mine, Wait: f.lease})
	if err != nil {
		return err
	}
	if told.Error == "" {
		o.took("told after the thaw", time.Since(thawed))
	}
	return f.after(ctx, o, mine, others)
}

// after looks at what the unlock of the lost lock says.
func (f *freeze) after(ctx context.Context, o *outcome, mine, others string) error {
	a, err := f.frozen.ask(ctx, unlock(mine))
	if err != nil {
		return err
	}
	if a.Error == "" {
		o.Said += "; its unlock says nothing"
	} else {
		o.Said += "; its unlock reports the loss"
	}
	_, err = f.next.must(ctx, unlock(others))
	return err
}
