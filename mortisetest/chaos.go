package mortisetest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// Rates says how often faults occur, as probabilities from 0 to 1, for [Link.Chaos]. A call or a
// message suffers one of them at most.
type Rates struct {
	// Of each call: see [Fault]. Half of what is lost is lost silently. A late call runs up to
	// Delay after it was made, and its client gives up before; the request and the reply of a
	// slow one take up to half of Delay each. A refused one gets an error reply that passes.
	RequestLost, ReplyLost, Late, Slow, NotConnected, Refused float64

	// Of each call: with it begins a [Link.Partition] or a [Link.Freeze] of up to Outage, or the
	// connections are [Link.Cut], with a pause of up to Outage.
	Partition, Freeze, Cut float64

	// Of each message: see [Delivery]. A late one takes up to Delay.
	MessageLost, MessageLate, MessageDoubled float64

	Delay  time.Duration // 0 stands for 3 s
	Outage time.Duration // 0 stands for 5 s
}

// chaos draws faults. What happens to the nth call of a script depends on the seed, the script and n
// only, and not on what other goroutines do meanwhile.
type chaos struct {
	seed  uint64
	rates Rates
	drawn map[string]int
}

// Chaos makes calls and messages go wrong at random, until it is called again, with other rates
// or none, or Calm is called. What happens to the nth call of a script depends only on the seed, the
// script and n, and what happens to the nth message on the seed and n: a run whose goroutines make
// the same calls has the same faults.
//
// A partition or a freeze that the test has begun lasts until the test ends it.
//
// [Link.Hits] says what has happened. Have a test demand some of each fault that it is about: one
// in which nothing goes wrong shows nothing.
//
// Rates that mean nothing make it panic: probabilities below 0, or above 1 in all, and negative times.
func (l *Link) Chaos(seed uint64, rates Rates) {
	demand(rates.RequestLost, rates.ReplyLost, rates.Late, rates.Slow, rates.NotConnected, rates.Refused, rates.Partition, rates.Freeze, rates.Cut)
	demand(rates.MessageLost, rates.MessageLate, rates.MessageDoubled)
	if rates.Delay < 0 || rates.Outage < 0 {
		panic(fmt.Sprintf("mortisetest: Delay %v, Outage %v: times must not be negative", rates.Delay, rates.Outage))
	}
	rates.Delay = cmp.Or(rates.Delay, 3*time.Second)
	rates.Outage = cmp.Or(rates.Outage, 5*time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = &chaos{seed: seed, rates: rates, drawn: make(map[string]int)}
}

// demand panics unless these are probabilities of which one may come true.
func demand(probabilities ...float64) {
	sum := 0.0
	for _, p := range probabilities {
		if sum += p; !(p >= 0) || sum > 1+1e-9 {
			panic(fmt.Sprintf("mortisetest: rates are probabilities from 0 to 1, and 1 at most in all, not %v", probabilities))
		}
	}
}

// draw returns the source of chance for the next event of a sort.
func draw(seed uint64, what string, drawn map[string]int) *rand.Rand {
	n := drawn[what]
	drawn[what]++
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt([]byte(what), int64(n), 10))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// one returns a function that reports, in a series of calls, true at most once, each time with the
// probability that it is given.
func one(r *rand.Rand) func(p float64) bool {
	left := r.Float64()
	return func(p float64) bool {
		left -= p
		return left < 0
	}
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

var passing = []string{Loading, ReadOnly, OutOfMemory, NoReplicas, MasterDown, Busy, TryAgain, MaxClients}

// call returns the fault of a call. It must be called with l.mu held.
func (c *chaos) call(l *Link, script string) Fault {
	r, a := draw(c.seed, script, c.drawn), &c.rates
	hit, silent := one(r), r.IntN(2) == 0
	switch {
	case hit(a.RequestLost):
		return Fault{Lose: Request, Silent: silent}
	case hit(a.ReplyLost):
		return Fault{Lose: Reply, Silent: silent}
	case hit(a.Late):
		return Fault{Lose: Reply, Before: upTo(r, a.Delay)}
	case hit(a.Slow):
		return Fault{Before: upTo(r, a.Delay/2), After: upTo(r, a.Delay/2)}
	case hit(a.NotConnected):
		return Fault{Lose: Connection}
	case hit(a.Refused):
		return Fault{Refuse: passing[r.IntN(len(passing))]}
	}
	c.outage(l, hit, upTo(r, a.Outage))
	return Fault{}
}

// outage begins an outage, perhaps. It must be called with l.mu held.
func (c *chaos) outage(l *Link, hit func(p float64) bool, d time.Duration) {
	a := &c.rates
	var begin, end func(author)
	switch {
	case hit(a.Partition):
		begin, end = l.partition, l.heal
	case hit(a.Freeze):
		begin, end = l.freeze, l.thaw
	case hit(a.Cut):
		l.server.roads.send(func() { l.Cut(d) })
		return
	default:
		return
	}
	begin(byChaos)
	l.server.roads.send(func() {
		if l.server.roads.sleep(d) {
			end(byChaos)
		}
	})
}

// message returns what happens to a message. It must be called with the link's mu held.
func (c *chaos) message() Delivery {
	r, a := draw(c.seed, "message", c.drawn), &c.rates
	hit := one(r)
	switch {
	case hit(a.MessageLost):
		return Delivery{Lost: true}
	case hit(a.MessageLate):
		return Delivery{Delay: upTo(r, a.Delay)}
	case hit(a.MessageDoubled):
		return Delivery{Copies: 1}
	}
	return Delivery{}
}
