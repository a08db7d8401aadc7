package script

import (
	"context"
	"sync"

	"github.com/mortise-go/mortise/driver"
)

// DurableResult is the outcome for one group of [RenewAndWait].
type DurableResult struct {
	RenewResult
	Acks   int  // replicas that have the renewal, and all that was before it
	Synced bool // the master has synced it to its file, if that was asked for
	Of     int  // replicas of the master, if that was asked for
}

// RenewAndWait is [Renew] with WAIT behind it. The keys of all groups must be
// served by one master.
func RenewAndWait(ctx context.Context, d driver.Waiter, groups [][]Renewal, wait driver.Wait) []DurableResult {
	calls := renewals(groups)
	for i := range calls {
		calls[i].Script = markedBy(calls[i].Script)
	}
	results := make([]DurableResult, len(groups))
	for i, r := range d.EvalWait(ctx, calls, wait) {
		results[i] = DurableResult{renewed(calls[i], r.Result), r.Acks, r.Synced, r.Of}
	}
	return results
}

// look does nothing. It runs where WAIT is to be tried.
var look = load("look")

// TryWait asks Redis whether it can do what wait says, without waiting, and
// returns how many replicas the master has, if wait asks for that. An error of
// class Other says that it cannot, whenever it is asked.
func TryWait(ctx context.Context, d driver.Waiter, key string, wait driver.Wait) (of int, err error) {
	r := d.EvalWait(ctx, []driver.Call{{Script: look, Keys: []string{key}}}, wait)[0]
	return r.Of, r.Err
}

// marked has the renewal scripts with mark.lua behind them, by those without.
var marked sync.Map

func markedBy(s *driver.Script) *driver.Script {
	if m, ok := marked.Load(s); ok {
		return m.(*driver.Script)
	}
	text, err := sources.ReadFile("lua/mark.lua")
	if err != nil {
		panic("mortise: script is not embedded: " + err.Error())
	}
	source := "local function renew()\n" + s.Source() + "\nend\nlocal answer = renew()\n" + string(text)
	m, _ := marked.LoadOrStore(s, driver.NewScript(s.Name()+"_durably", source))
	return m.(*driver.Script)
}
