package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	barrierAwait = load("barrier_await", "barrier", "barrier_break")
	barrierLeave = load("barrier_leave", "barrier", "barrier_break")
	barrierReset = load("barrier_reset", "barrier")
	doubleEnter  = load("double_enter", "barrier", "double")
	doubleLeave  = load("double_leave", "barrier", "double")
	doubleQuit   = load("double_quit", "barrier", "double")
	doubleRenew  = load("double_renew")
)

// Barrier is a barrier of either kind, with the arguments of its scripts.
type Barrier struct {
	Name    string
	Parties int
	Lease   time.Duration // of each party
	Publish Publish
}

func (b Barrier) call(s *driver.Script, party string, args ...string) driver.Call {
	base := keyspace.BarrierOutcomes(b.Name)
	return driver.Call{
		Script: s, Keys: []string{b.Name, base + ":" + party},
		Args: append([]string{
			party, base, millis(b.Lease), keyspace.BarrierChannel(b.Name), strings.Join(b.Publish.commands(), " "),
		}, args...),
	}
}

// here returns the arguments of a party that arrives.
func (b Barrier) here(known bool) []string {
	if known {
		return []string{strconv.Itoa(b.Parties), "1"}
	}
	return []string{strconv.Itoa(b.Parties), "0"}
}

// refusal is the error for an answer below 0.
func (b Barrier) refusal(v driver.Value) error {
	switch v.At(0).Int() {
	case -1:
		return ErrKind
	case -2:
		size := v.At(1).Str()
		if _, err := strconv.ParseUint(size, 10, 32); err != nil {
			size = fmt.Sprintf("%.40q", size) // written by another program
		}
		return &driver.Error{Class: driver.WrongType, Err: fmt.Errorf("it is a barrier for %s parties, not for %d", size, b.Parties)}
	}
	return nil
}

// Fate is what a script reports of a party.
type Fate struct {
	Over  bool   // it no longer has to wait
	Index int    // how many parties had arrived before it
	Why   string // the barrier is broken: died, left, reset, or lost
	Who   string // the party or call that broke it; empty if lost
	There int    // while it has to wait: how many parties have arrived, or are still inside
}

// fate reads a party's fate from the reply of a script.
func fate(s *driver.Script, v driver.Value) (Fate, error) {
	switch n := v.At(0).Int(); {
	case n == 0 && is(v, "i"):
		return Fate{Over: true, Why: "lost"}, nil
	case n == 1 && is(v, "ii"):
		return Fate{There: int(v.At(1).Int())}, nil
	case n == 2 && is(v, "is"):
		if f, ok := outcome(v.At(1).Str()); ok {
			return f, nil
		}
		return Fate{}, &driver.Error{Class: driver.WrongType, Err: errors.New("what is kept as the outcome of the party is none of a barrier's")}
	}
	return Fate{}, unexpected(s, v)
}

// outcome reads the words that Redis keeps as the outcome of a party.
func outcome(text string) (f Fate, ok bool) {
	words := strings.Fields(text)
	switch {
	case len(words) == 3 && words[0] == "broken":
		return Fate{Over: true, Why: words[1], Who: words[2]}, true
	case len(words) == 2 && words[0] == "passed":
		index, err := strconv.Atoi(words[1])
		return Fate{Over: true, Index: index}, err == nil
	case len(words) == 1 && words[0] == "over":
		return Fate{Over: true}, true
	case len(words) == 1: // left or gone: by ourselves
		return Fate{Over: true, Why: "left"}, true
	}
	return Fate{}, false
}

// BarrierAwait lets party arrive at a barrier, if it has not, and returns its fate.
// Known means that it has certainly arrived.
func BarrierAwait(ctx context.Context, d driver.Driver, b Barrier, party string, known bool) (Fate, error) {
	v, err := d.Eval(ctx, b.call(barrierAwait, party, b.here(known)...))
	if err == nil {
		err = b.refusal(v)
	}
	if err != nil {
		return Fate{}, err
	}
	return fate(barrierAwait, v)
}

// BarrierLeave takes back the arrival of party, which breaks the barrier.
func BarrierLeave(ctx context.Context, d driver.Driver, b Barrier, party string) error {
	return b.done(ctx, d, b.call(barrierLeave, party))
}

// BarrierReset makes a barrier as new, which breaks it for its waiting parties. Call
// is an id drawn for this, in the form of a party's.
func BarrierReset(ctx context.Context, d driver.Driver, b Barrier, call string) error {
	return b.done(ctx, d, b.call(barrierReset, call))
}

// done runs a script that answers {1}.
func (b Barrier) done(ctx context.Context, d driver.Driver, call driver.Call) error {
	v, err := d.Eval(ctx, call)
	if err == nil {
		err = b.refusal(v)
	}
	if err == nil && (v.At(0).Int() != 1 || !is(v, "i")) {
		err = unexpected(call.Script, v)
	}
	return err
}

// DoubleBarrier is the operations of a double barrier, on the places of its parties,
// except Acquire: the caller of [DoubleEnter] needs to know more than an [Attempt] has.
type DoubleBarrier struct {
	single
	conn *Conn
	b    Barrier
}

// DoubleBarrier returns the operations of b, whose Publish need not be set.
func (c *Conn) DoubleBarrier(b Barrier) DoubleBarrier { return DoubleBarrier{conn: c, b: b} }

// Barrier returns the barrier, with its Publish set.
func (k *DoubleBarrier) Barrier() Barrier {
	b := k.b
	b.Publish = k.conn.Publish()
	return b
}

// Channel returns the channel on which arrivals and departures are announced.
func (k *DoubleBarrier) Channel() string { return keyspace.BarrierChannel(k.b.Name) }

// Release takes the party id out, as [DoubleQuit] does.
func (k *DoubleBarrier) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	return freed(DoubleQuit(ctx, k.conn.driver, k.Barrier(), id))
}

// Renewal extends the lease of the party id.
func (k *DoubleBarrier) Renewal(id string, lease time.Duration) Renewal {
	return DoubleRenewal(k.b.Name, id, lease)
}

// DoubleEnter lets party enter a double barrier, if it has not. It returns how many
// parties are inside, this one included, and whether all are, or 0 if this one is not; if
// there is no place, by is one of the parties inside. Known means that it has certainly entered: then it is not let in
// again.
func DoubleEnter(ctx context.Context, d driver.Driver, b Barrier, party string, known bool) (inside int, open bool, by Holder, err error) {
	v, err := d.Eval(ctx, b.call(doubleEnter, party, b.here(known)...))
	if err == nil {
		err = b.refusal(v)
	}
	if err != nil {
		return 0, false, Holder{}, err
	}
	switch n := v.At(0).Int(); {
	case n == 1 && is(v, "iii"):
		return int(v.At(2).Int()), v.At(1).Int() == 1, Holder{}, nil
	case n == 0 && is(v, "iis"):
		return 0, false, Holder{Owner: v.At(2).Str(), Count: 1, TTL: ttl(v.At(1))}, nil
	case n == 2 && is(v, "i"):
		return 0, false, Holder{}, nil
	}
	return 0, false, Holder{}, unexpected(doubleEnter, v)
}

// DoubleLeave lets party leave a double barrier, if it has not, and reports
// whether all have.
func DoubleLeave(ctx context.Context, d driver.Driver, b Barrier, party string) (Fate, error) {
	v, err := d.Eval(ctx, b.call(doubleLeave, party))
	if err == nil {
		err = b.refusal(v)
	}
	if err != nil {
		return Fate{}, err
	}
	return fate(doubleLeave, v)
}

// DoubleQuit takes out of a double barrier a party that does not leave normally. It
// reports false if the party was not inside.
func DoubleQuit(ctx context.Context, d driver.Driver, b Barrier, party string) (bool, error) {
	v, err := d.Eval(ctx, b.call(doubleQuit, party))
	if err == nil {
		err = b.refusal(v)
	}
	if err == nil && (!is(v, "i") || !states(v, 0, 1)) {
		err = unexpected(doubleQuit, v)
	}
	return err == nil && v.At(0).Int() == 1, err
}

// DoubleRenewal extends the lease of a party that is inside a double barrier.
func DoubleRenewal(key, party string, lease time.Duration) Renewal {
	return Renewal{Script: doubleRenew, Key: key, Args: []string{party, millis(lease)}}
}
