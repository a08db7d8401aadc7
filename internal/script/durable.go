package script

import (
	"context"
	"slices"
	"sync"

	"github.com/mortise-go/mortise/driver"
)

// EvalAndWait runs scripts, each of which writes something if one of its keys exists, followed by WAIT.
// One master must serve the keys of all of them.
func EvalAndWait(ctx context.Context, d driver.Waiter, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].Script = markedBy(calls[i].Script)
	}
	return d.EvalWait(ctx, calls, wait)
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

// marked maps scripts to the same scripts followed by mark.lua.
var marked sync.Map

func markedBy(s *driver.Script) *driver.Script {
	if m, ok := marked.Load(s); ok {
		return m.(*driver.Script)
	}
	text, err := sources.ReadFile("lua/mark.lua")
	if err != nil {
		panic("mortise: script is not embedded: " + err.Error())
	}
	source := "local function run()\n" + s.Source() + "\nend\nlocal answer = run()\n" + string(text)
	m, _ := marked.LoadOrStore(s, driver.NewScript(s.Name()+"_durably", source))
	return m.(*driver.Script)
}
