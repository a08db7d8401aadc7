package script

import (
	"context"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// RenewBatch is the largest number of leases that one script renews. It is
// Redisson's number: large enough that the script's fixed cost vanishes, small
// enough that it does not hold up the server.
const RenewBatch = 100

// Renewal is one lease to renew. Renewals with the same script can share a call:
// the script iterates over its keys, takes from the arguments what each needs, then
// Most and Count, and answers with one state per key and with the server's time.
type Renewal struct {
	Script *driver.Script
	Key    string
	Args   []string
	// Most is the longest lease that was ever requested, and Count how often
	// the owner holds it, as the client believes. A lease that is longer still, because
	// the clock was set back, is cut to Most, if no other client can have
	// requested more. Without Most nothing is cut.
	Most  time.Duration
	Count int
}

// The answers of [Renew].
const (
	Renewed = 1
	Gone    = 0  // the key no longer exists
	Taken   = -1 // the key exists, but the owner has no lease in it
)

// Renew extends the leases of each group, one script per group, all in one
// batch. The members of a group have the same script and keys that share a
// slot, and there must be at most [RenewBatch] of them. Result i belongs to
// group i: an error, or one answer per lease.
func Renew(ctx context.Context, d driver.Driver, groups [][]Renewal) []RenewResult {
	calls := Renewals(groups)
	results := make([]RenewResult, len(groups))
	for i, r := range d.Batch(ctx, calls) {
		results[i] = RenewalAnswer(calls[i], r)
	}
	return results
}

// Renewals returns the call of each group.
func Renewals(groups [][]Renewal) []driver.Call {
	calls := make([]driver.Call, len(groups))
	for i, group := range groups {
		call := driver.Call{Script: group[0].Script, Keys: make([]string, 0, len(group)), Args: make([]string, 0, len(group)*(len(group[0].Args)+2))}
		for _, l := range group {
			call.Keys = append(call.Keys, l.Key)
			call.Args = append(append(call.Args, l.Args...), millis(l.Most), strconv.Itoa(l.Count))
		}
		calls[i] = call
	}
	return calls
}

// RenewalAnswer reads the reply to such a call.
func RenewalAnswer(call driver.Call, r driver.Result) RenewResult {
	if r.Err != nil {
		return RenewResult{Err: r.Err}
	}
	if r.Value.Len() != len(call.Keys)+1 {
		return RenewResult{Err: unexpected(call.Script, r.Value)}
	}
	states := make([]int, len(call.Keys))
	for j := range states {
		s := r.Value.At(j)
		if s.Kind() != driver.Int || s.Int() < Taken || s.Int() > Renewed {
			return RenewResult{Err: unexpected(call.Script, r.Value)}
		}
		states[j] = int(s.Int())
	}
	clock := r.Value.At(len(states))
	if clock.Kind() != driver.Int {
		return RenewResult{Err: unexpected(call.Script, r.Value)}
	}
	return RenewResult{States: states, Clock: span(clock.Int())}
}

// RenewResult is the outcome for one group of [Renew].
type RenewResult struct {
	States []int         // Renewed, Gone or Taken
	Clock  time.Duration // the server's time, since the epoch, in whole milliseconds; 0 if not reported
	Err    error
}
