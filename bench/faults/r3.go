package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/internal/redistest"
)

// r3 cuts the connection after Redis has run a request and before the client has its reply.
var r3 = row{
	name:    "r3",
	title:   "the reply is lost after Redis has run the request",
	n:       20,
	offered: everybody,
	run:     runR3,
}

// lossyLink is a client behind a proxy.
type lossyLink struct {
	*trials
	lease  time.Duration
	server *server
	proxy  *redistest.Proxy
	client *process
}

// losses are the cases: the levels at which a lock is held before the request, what the request is,
// and by how much it changes them.
var losses = []struct {
	name   string
	levels int
	do     func(l *lossyLink, name, hold, outer string) contender.Request
	change int
}{
	{"acquire", 0, (*lossyLink).acquire, 1},
	{"unlock", 1, (*lossyLink).release, -1},
	{"re-enter", 1, (*lossyLink).enter, 1},
	{"unlock the inner of two", 2, (*lossyLink).release, -1},
}

func runR3(ctx context.Context, t *trials) error {
	const lanes = 4
	var links [lanes]*lossyLink
	for i := range min(lanes, t.n) {
		var err error
		if links[i], err = startLossyLink(ctx, t); err != nil {
			return err
		}
	}
	for n, c := range losses {
		if n > 1 && !t.system.Reenters {
			break
		}
		err := t.each(lanes, func(lane, i int) error {
			o := outcome{Case: c.name}
			err := links[lane].trial(ctx, &o, fmt.Sprintf("lossy-%d-%d", n, i), n)
			if err == nil {
				t.record(o)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func startLossyLink(ctx context.Context, t *trials) (_ *lossyLink, err error) {
	// The lease is longer than any client waits for a reply.
	l := &lossyLink{trials: t, lease: t.leaseOr(8 * time.Second)}
	if l.server, err = t.startServer(); err != nil {
		return nil, err
	}
	if l.proxy, err = t.startProxy(l.server.addr); err != nil {
		return nil, err
	}
	l.client, err = t.startProcess(ctx, contender.Config{Addr: l.proxy.Addr(), Lease: l.lease})
	return l, err
}

func (l *lossyLink) acquire(name, hold, _ string) contender.Request {
	return lock(name, hold, 3*l.lease)
}

func (l *lossyLink) release(_, hold, _ string) contender.Request { return unlock(hold) }

func (l *lossyLink) enter(_, hold, outer string) contender.Request {
	return contender.Request{Do: contender.Again, Hold: hold, Of: outer}
}

// trial holds a lock at some levels, loses the reply of one request, compares what the client says
// with what Redis has, releases the remaining levels, and looks whether anything is left.
func (l *lossyLink) trial(ctx context.Context, o *outcome, name string, nth int) error {
	levels, change := losses[nth].levels, losses[nth].change
	outer, inner := name+"/1", name+"/2"
	if levels > 0 {
		if _, err := l.client.must(ctx, lock(name, outer, 10*time.Second)); err != nil {
			return err
		}
	}
	if levels > 1 {
		if _, err := l.client.must(ctx, l.enter(name, inner, outer)); err != nil {
			return err
		}
	}
	hold := outer
	if levels == 2 || levels == 1 && change > 0 {
		hold = inner
	}
	lost := l.proxy.LoseReply(name, 1)
	start := time.Now()
	a, err := l.client.ask(ctx, losses[nth].do(l, name, hold, outer))
	if err != nil {
		return err
	}
	o.took("answer", time.Since(start))
	o.Hit = isClosed(lost)
	_ = l.proxy.LoseReply("no request contains this", 1) // if it was not lost

	count, err := l.count(name)
	if err != nil {
		return err
	}
	o.Said = verdict(a, count, levels, change)
	left := levels
	if a.Error == "" || change < 0 { // an unlock that failed is not repeated
		left = levels + change
	}
	for ; left > 0; left-- { // what the caller knows to hold
		again := unlock(map[bool]string{true: outer, false: inner}[left == 1])
		if a, err := l.client.ask(ctx, again); err != nil {
			return err
		} else if a.Error != "" {
			o.Said += "; the next unlock fails"
		}
	}
	return l.leftOver(o, name)
}

// verdict says what a caller is told, and whether Redis agrees.
func verdict(a contender.Answer, count, levels, change int) string {
	said := map[string]string{
		"":                "success",
		contender.Refused: "refused, as if another owner had it",
		contender.Gone:    "an error: it was not held",
		contender.Unknown: "an error: not known",
	}[a.Is]
	want := levels + change
	switch {
	case count == want:
		return said
	case a.Is == contender.Unknown && count == levels:
		return said + ", and undone"
	}
	return fmt.Sprintf("%s, with %d levels in Redis instead of %d", said, count, want)
}

// leftOver waits until the lock is free, which it is now unless the client has forgotten something.
func (l *lossyLink) leftOver(o *outcome, name string) error {
	start := time.Now()
	taken, err := l.server.exists(l.system.Key(name))
	if err != nil || !taken {
		return err
	}
	err = within(l.lease+time.Second, "the lock is free", func() (bool, error) {
		taken, err := l.server.exists(l.system.Key(name))
		return !taken, err
	})
	if err != nil {
		o.Said += "; locked for longer than a lease, with nobody to release it"
		_, err := l.server.do("DEL", l.system.Key(name))
		return err
	}
	o.took("left", time.Since(start))
	if time.Since(start) > 50*time.Millisecond {
		o.Said += "; stays locked until its lease ends"
	}
	return nil
}

// count returns how many levels a lock has in Redis.
func (l *lossyLink) count(name string) (int, error) {
	key := l.system.Key(name)
	if !l.system.Reenters {
		taken, err := l.server.exists(key)
		if taken {
			return 1, err
		}
		return 0, err
	}
	counts, err := l.server.do("HVALS", key)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, c := range counts.([]any) {
		n, err := strconv.Atoi(fmt.Sprint(c))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
