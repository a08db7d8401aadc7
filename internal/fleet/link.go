package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/record"
)

// link is the driver of a client. It makes the client's process look like another one, because all of
// them are in one process, and it can cut the client off.
type link struct {
	driver.Driver
	pid     int
	started time.Time // when the process seems to have started

	told chan struct{} // closed when a record that lists a hold has been written
	tell func()        // closes told

	mu  sync.Mutex // guards cut
	cut bool
}

var errCut = &driver.Error{Class: driver.NotSent, Err: errors.New("this client of the demonstration is cut off")}

func newLink(d driver.Driver, p *persona) *link {
	l := &link{Driver: d, pid: p.pid, started: time.Now().Add(-p.up), told: make(chan struct{})}
	l.tell = sync.OnceFunc(func() { close(l.told) })
	return l
}

// setCut cuts the client off, or ends that.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Eval runs one script.
func (l *link) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if l.isCut() {
		return driver.Value{}, errCut
	}
	call, holds := l.disguise(call)
	v, err := l.Driver.Eval(ctx, call)
	if err == nil && holds {
		l.tell()
	}
	return v, err
}

// Batch runs scripts.
func (l *link) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	if l.isCut() {
		return slices.Repeat([]driver.Result{{Err: errCut}}, len(calls))
	}
	disguised := make([]driver.Call, len(calls))
	for i, call := range calls {
		disguised[i], _ = l.disguise(call)
	}
	return l.Driver.Batch(ctx, disguised)
}

// The scripts that tell what the process is.
const (
	recordScript  = "client_record"
	historyScript = "history_add"
)

// disguise returns the call with the id of the process, and its start, that the client is to have. holds is
// whether it writes a record that lists a hold.
func (l *link) disguise(call driver.Call) (_ driver.Call, holds bool) {
	switch call.Script.Name() {
	case recordScript:
		var b record.Body
		if json.Unmarshal([]byte(call.Args[0]), &b) == nil { // else it is deleted
			b.PID, b.Started = l.pid, l.started.UnixMilli()
			call.Args = slices.Clone(call.Args)
			call.Args[0], holds = b.Text(), len(b.Holds) > 0
		}
	case historyScript:
		call.Args = slices.Clone(call.Args)
		for i, text := range call.Args {
			if a, ok := record.ParseAcquisition(text); ok {
				a.PID = l.pid
				call.Args[i] = a.Text()
			}
		}
	}
	return call, holds
}
