package script

import (
	"context"

	"github.com/mortise-go/mortise/driver"
)

// RenewBatch is the largest number of leases that one script renews. It is
// Redisson's number: large enough that the script's fixed cost vanishes, small
// enough that it does not hold up the server.
const RenewBatch = 100

// Renewal is one lease to renew. Those with the same script can be renewed
// together: each script walks over its keys, takes from the arguments what
// each needs, and answers with one state per key.
type Renewal struct {
	Script *driver.Script
	Key    string
	Args   []string
}

// The answers of [Renew].
const (
	Renewed = 1
	Gone    = 0  // the key does not exist any more
	Taken   = -1 // the key exists, but the owner has no part in it
)

// Renew extends the leases of each group, one script per group, all in one
// batch. The members of a group have the same script and keys that share a
// slot, and there must be at most [RenewBatch] of them. Result i belongs to
// group i: an error, or one answer per lease.
func Renew(ctx context.Context, d driver.Driver, groups [][]Renewal) []RenewResult {
	calls := renewals(groups)
	results := make([]RenewResult, len(groups))
	for i, r := range d.Batch(ctx, calls) {
		results[i] = renewed(calls[i], r)
	}
	return results
}

// renewals returns the call for each group.
func renewals(groups [][]Renewal) []driver.Call {
	calls := make([]driver.Call, len(groups))
	for i, group := range groups {
		call := driver.Call{Script: group[0].Script, Keys: make([]string, 0, len(group)), Args: make([]string, 0, len(group)*len(group[0].Args))}
		for _, l := range group {
			call.Keys = append(call.Keys, l.Key)
			call.Args = append(call.Args, l.Args...)
		}
		calls[i] = call
	}
	return calls
}

// renewed reads the reply to such a call.
func renewed(call driver.Call, r driver.Result) RenewResult {
	if r.Err != nil {
		return RenewResult{Err: r.Err}
	}
	if r.Value.Len() != len(call.Keys) {
		return RenewResult{Err: unexpected(call.Script, r.Value)}
	}
	states := make([]int, r.Value.Len())
	for j := range states {
		states[j] = int(r.Value.At(j).Int())
	}
	return RenewResult{States: states}
}

// RenewResult is the outcome for one group of [Renew].
type RenewResult struct {
	States []int // Renewed, Gone or Taken
	Err    error
}
