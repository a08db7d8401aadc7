package script

import (
	"context"
	"sync"

	"github.com/mortise-go/mortise/driver"
)

// DurableResult is the outcome for one group of [RenewAndWait].
type DurableResult struct {
	RenewResult
	Acks   int  // replicas that have the renewal, and everything before it
	Synced bool // the master has synced it to its file, if that was asked for
	Of     int  // replicas of the master, if that was asked for
}

// RenewAndWait is [Renew] followed by WAIT. One master must serve the keys of all
// groups.
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

// look does nothing. It is for testing WAIT.
var look = load("look")

// TryWait asks Redis whether it supports what wait says, without waiting, and
// returns how many replicas the master has, if wait asks for that. An error of
// class Other means that it does not, at any time.
func TryWait(ctx context.Context, d driver.Waiter, key string, wait driver.Wait) (of int, err error) {
	r := d.EvalWait(ctx, []driver.Call{{Script: look, Keys: []string{key}}}, wait)[0]
	return r.Of, r.Err
}

// marked maps renewal scripts to the same scripts followed by mark.lua.
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
