package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/mortisetest"
)

// plan is all that a seed decides: what each client does, and what goes wrong. It is data, so
// that parts of it can be left out.
type plan struct {
	seed    uint64
	clients []clientPlan
	server  []event
	rates   mortisetest.Rates // of the links that are not calm
}

// clientPlan is one client: its programs run side by side, and it is closed after them.
type clientPlan struct {
	name     string
	joins    time.Duration // when it comes
	calm     bool          // its link has only the faults of its events
	patient  bool          // it ends only when its link has been good for a while
	programs [][]op
	events   []event
}

// event is a fault that lasts for some time.
type event struct {
	at, lasts time.Duration
	what      string        // one of those in faults.go
	n         int           // how many writes are forgotten, or which key vanishes
	by        time.Duration // how far the clock jumps
}

func (e event) String() string {
	text := fmt.Sprintf("at %v: %s", e.at, e.what)
	switch {
	case e.lasts > 0:
		text += fmt.Sprintf(" for %v", e.lasts)
	case e.by > 0:
		text += fmt.Sprintf(" by %v", e.by)
	case e.n > 0:
		text += fmt.Sprintf(" (%d)", e.n)
	}
	return text
}

// op is one thing that a goroutine does.
type op struct {
	pause, keep time.Duration
	limit       time.Duration // of its context
	cancel      time.Duration // after which the caller gives up, if it is not 0
	kind        string
	name        string
	n           int
	try         bool
	inner       string        // the kind as which it re-enters, if any
	maxHold     time.Duration // if it is not 0
	minHold     time.Duration // likewise
	wait        time.Duration // likewise
	leaves      bool          // it never releases what it has
	unheard     bool          // it does not get the first reply
	extends     bool          // it gives the permit that it has another lease
	looks       bool          // it looks at the holder and the waiters of the name before
}

func (o op) String() string {
	text := fmt.Sprintf("after %v %s %q", o.pause, o.kind, o.name)
	if o.n > 0 {
		text += fmt.Sprintf(" (%d)", o.n)
	}
	if o.try {
		text += ", without waiting"
	}
	text += fmt.Sprintf(", for %v at most", o.limit)
	if o.cancel > 0 {
		text += fmt.Sprintf(", gives up after %v", o.cancel)
	}
	text += fmt.Sprintf("; keeps it for %v", o.keep)
	for _, option := range []struct {
		name string
		d    time.Duration
	}{{"MaxHold", o.maxHold}, {"MinHold", o.minHold}, {"Wait", o.wait}} {
		if option.d > 0 {
			text += fmt.Sprintf(", with a %s of %v", option.name, option.d)
		}
	}
	if o.inner != "" {
		text += ", enters it again as " + o.inner
	}
	if o.unheard {
		text += ", whose first reply is lost"
	}
	if o.extends {
		text += ", extends its lease"
	}
	if o.leaves {
		text += ", and never releases it"
	}
	if o.looks {
		text += "; it looks at its holder before"
	}
	return text
}

// size is how many parts can be left out.
func (p *plan) size() (clients, ops, faults int) {
	for _, c := range p.clients {
		for _, program := range c.programs {
			ops += len(program)
		}
		faults += len(c.events)
	}
	return len(p.clients), ops, faults + len(p.server) + len(rateFields(&p.rates))
}

// has reports whether some client does something of that kind.
func (p *plan) has(kind string) bool {
	for _, c := range p.clients {
		for _, program := range c.programs {
			if slices.ContainsFunc(program, func(o op) bool { return o.kind == kind }) {
				return true
			}
		}
	}
	return false
}

// String tells the plan in words.
func (p *plan) String() string {
	var b strings.Builder
	for _, c := range p.clients {
		fmt.Fprintf(&b, "\t%s comes at %v", c.name, c.joins)
		if c.calm {
			b.WriteString(", on a calm link")
		}
		if c.patient {
			b.WriteString(", and does not end before its link is good")
		}
		b.WriteString("\n")
		for i, program := range c.programs {
			for _, o := range program {
				fmt.Fprintf(&b, "\t\tgoroutine %d: %v\n", i+1, o)
			}
		}
		for _, e := range c.events {
			fmt.Fprintf(&b, "\t\t%v\n", e)
		}
	}
	for _, e := range p.server {
		fmt.Fprintf(&b, "\tthe server %v\n", e)
	}
	for _, f := range rateFields(&p.rates) {
		fmt.Fprintf(&b, "\tof all calls or messages on links that are not calm, %g%%: %s\n", *f.rate*100, f.name)
	}
	return b.String()
}

// rateField is one of the rates of random faults that is not zero.
type rateField struct {
	name string
	rate *float64
}

func rateFields(r *mortisetest.Rates) (fields []rateField) {
	for _, f := range []rateField{
		{"the request is lost", &r.RequestLost}, {"the reply is lost", &r.ReplyLost}, {"the script runs late", &r.Late},
		{"slow", &r.Slow}, {"there is no connection", &r.NotConnected}, {"the server refuses", &r.Refused},
		{"a partition begins", &r.Partition}, {"the link freezes", &r.Freeze}, {"the connections break", &r.Cut},
		{"the message is lost", &r.MessageLost}, {"the message is late", &r.MessageLate}, {"the message comes twice", &r.MessageDoubled},
	} {
		if *f.rate > 0 {
			fields = append(fields, f)
		}
	}
	return fields
}

// Names that only braces tell apart, so that one that is another's key or channel shows.
var names = []string{"job", "{job}", "{job}:1", "a:{job}"}

// themes are what the clients of one plan contend for. Kinds that are one lock are mixed.
var themes = [][]string{
	{"Lock", "SpinLock", "FencedLock", "FairLock"},
	{"Lock", "FencedLock", "multi"},
	{"FairLock"},
	{"Lock"},
	{"FencedLock"},
	{"read", "write", "upgrade", "write then read"},
	{"group"},
	{"permits"},
	{"semaphore", "count down", "latch"},
	{"barrier", "double barrier"},
	{"election", "look"},
}

// newPlan draws the plan of a seed.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 42))
	p := &plan{seed: seed}
	kinds := append(append([]string(nil), themes[int(seed)%len(themes)]...), themes[r.IntN(len(themes))]...)
	used := names[:1+r.IntN(3)]
	if r.IntN(4) > 0 {
		p.rates = someRates(r)
	}
	for i := range 3 + r.IntN(3) {
		c := clientPlan{name: fmt.Sprintf("client %c", 'A'+i), joins: upTo(r, 4000), calm: r.IntN(3) == 0}
		for range 1 + r.IntN(3) {
			var program []op
			for range 2 + r.IntN(3) {
				program = append(program, newOp(r, kinds, used))
			}
			c.programs = append(c.programs, program)
		}
		for range r.IntN(3) {
			c.events = append(c.events, event{at: upTo(r, 20_000), lasts: upTo(r, 9000), what: clientFaults[r.IntN(len(clientFaults))]})
		}
		p.clients = append(p.clients, c)
	}
	for range r.IntN(3) {
		p.server = append(p.server, event{at: upTo(r, 20_000), what: "loading"})
	}
	p.more(rand.New(rand.NewPCG(seed, 43)))
	p.rare(rand.New(rand.NewPCG(seed, 44)))
	p.looks(rand.New(rand.NewPCG(seed, 45)))
	return p
}

// looks draws which operations begin with a look at what others tell.
func (p *plan) looks(r *rand.Rand) {
	for _, c := range p.clients {
		for _, program := range c.programs {
			for i := range program {
				program[i].looks = r.IntN(6) == 0
			}
		}
	}
}

// more draws what has a source of chance of its own: in half of the plans the server loses data or
// its clock jumps, and some operations have more options.
func (p *plan) more(r *rand.Rand) {
	loses := r.IntN(2) == 0
	if loses {
		for range 1 + r.IntN(2) {
			p.server = append(p.server, event{at: 3*time.Second + upTo(r, 12_000), what: dataFaults[r.IntN(len(dataFaults))], n: 1 + r.IntN(20), by: upTo(r, 8000)})
		}
	}
	for _, c := range p.clients {
		for _, program := range c.programs {
			for i := range program {
				o := &program[i]
				if loses && r.IntN(3) == 0 {
					o.keep += 3 * time.Second // so that there are holds that can be lost
				}
				if r.IntN(6) == 0 {
					o.wait = 100*time.Millisecond + upTo(r, 4000)
				}
				if r.IntN(6) == 0 && (isPlain(o.kind) || o.kind == "write") {
					o.minHold = 500*time.Millisecond + upTo(r, 3000)
					if o.maxHold > 0 {
						o.minHold = min(o.minHold, o.maxHold)
					}
				}
			}
		}
	}
}

func newOp(r *rand.Rand, kinds, used []string) op {
	o := op{
		pause: upTo(r, 1500), keep: upTo(r, 2500), limit: 500*time.Millisecond + upTo(r, 20_000),
		kind: kinds[r.IntN(len(kinds))], name: used[r.IntN(len(used))], n: 1 + r.IntN(2),
		try: r.IntN(6) == 0, leaves: r.IntN(12) == 0,
	}
	if r.IntN(5) == 0 {
		o.cancel = upTo(r, 3000)
	}
	if r.IntN(4) == 0 {
		o.maxHold = 200*time.Millisecond + upTo(r, 4000)
	}
	if r.IntN(3) == 0 && isPlain(o.kind) {
		o.inner = themes[0][r.IntN(3)]
	}
	return o
}

func isPlain(kind string) bool {
	return kind == "Lock" || kind == "SpinLock" || kind == "FencedLock" || kind == "FairLock"
}

// someRates draws which faults occur, and how often.
func someRates(r *rand.Rand) mortisetest.Rates {
	rate := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return float64(int(r.Float64()*most*100)) / 100
	}
	return mortisetest.Rates{
		RequestLost: rate(0.1), ReplyLost: rate(0.15), Late: rate(0.1), Slow: rate(0.2), NotConnected: rate(0.1), Refused: rate(0.1),
		Partition: rate(0.03), Freeze: rate(0.03), Cut: rate(0.05),
		MessageLost: rate(0.3), MessageLate: rate(0.3), MessageDoubled: rate(0.3),
		Outage: 4 * time.Second,
	}
}

// upTo draws a number of milliseconds.
func upTo(r *rand.Rand, ms int) time.Duration { return time.Duration(r.IntN(ms)) * time.Millisecond }
