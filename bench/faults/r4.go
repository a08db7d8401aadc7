package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/internal/redistest"
)

// r4 cuts the connection over which a waiter would be told that the lock is free.
var r4 = row{
	name:    "r4",
	title:   "a waiter's connection is cut at the unlock",
	n:       20,
	offered: everybody,
	run:     runR4,
}

func runR4(ctx context.Context, t *trials) error {
	lease := t.leaseOr(6 * time.Second)
	s, err := t.startServer()
	if err != nil {
		return err
	}
	proxy, err := t.startProxy(s.addr)
	if err != nil {
		return err
	}
	holder, err := t.startProcess(ctx, contender.Config{Addr: s.addr, Lease: lease})
	if err != nil {
		return err
	}
	waiter, err := t.startProcess(ctx, contender.Config{Addr: proxy.Addr(), Lease: lease})
	if err != nil {
		return err
	}
	for i := range t.n {
		for _, cut := range []bool{false, true} {
			o := outcome{Case: map[bool]string{false: "not cut", true: "cut"}[cut]}
			name := fmt.Sprintf("awaited-%s-%d", o.Case[:3], i)
			if err := deaf(ctx, t, &o, deafWaiter{s, proxy, holder, waiter, lease, cut}, name); err != nil {
				return err
			}
			t.record(o)
		}
	}
	return nil
}

type deafWaiter struct {
	server         *server
	proxy          *redistest.Proxy
	holder, waiter *process
	lease          time.Duration
	cut            bool // otherwise nothing fails, for comparison
}

// deaf releases a lock at a moment in which its waiter cannot be told.
func deaf(ctx context.Context, t *trials, o *outcome, d deafWaiter, name string) error {
	hold, awaited := name+"/held", name+"/awaited"
	if _, err := d.holder.must(ctx, lock(name, hold, 10*time.Second)); err != nil {
		return err
	}
	limit := 4 * d.lease
	answer, err := d.waiter.start(lock(name, awaited, limit))
	if err != nil {
		return err
	}
	// The moment in a lease, and between two polls, is a matter of chance.
	time.Sleep(d.lease/10 + time.Duration(t.rand.Int64N(int64(d.lease/10))))
	if d.cut {
		if o.Hit, err = d.deafen(t.system.Subscribes); err != nil {
			return err
		}
	} else {
		o.Hit = true
	}
	if _, err := d.holder.must(ctx, unlock(hold)); err != nil {
		return err
	}
	free := time.Now()
	if d.cut {
		if err := d.proxy.Reopen(); err != nil {
			return err
		}
	}
	a, err := d.waiter.await(ctx, answer, limit)
	if err != nil {
		return err
	}
	if a.Error != "" {
		o.Said = fmt.Sprintf("not acquired, although free, within %v", limit)
		return nil
	}
	o.took("wait", time.Since(free))
	o.Said = "acquired"
	if time.Since(free) > d.lease/2 {
		o.Said = "acquired when the time of the lease that was released was over"
	}
	_, err = d.waiter.must(ctx, unlock(awaited))
	return err
}

// deafen cuts the connections of the waiter that listen, or all if none does, and refuses new ones.
// It reports whether it hit any, and none is left.
func (d deafWaiter) deafen(listens bool) (bool, error) {
	before, err := d.server.listeners()
	if err != nil {
		return false, err
	}
	d.proxy.Refuse()
	var cut []string
	for _, addr := range before {
		if d.proxy.CutFrom(addr) { // the holder's do not come through the proxy
			cut = append(cut, addr)
		}
	}
	hit := len(cut) > 0
	if !listens {
		hit = d.proxy.Connections() > 0
		d.proxy.CutAll()
	}
	err = within(5*time.Second, "the server has noticed the cut", func() (bool, error) {
		now, err := d.server.listeners()
		return !slices.ContainsFunc(now, func(addr string) bool { return slices.Contains(cut, addr) }), err
	})
	return hit, err
}
