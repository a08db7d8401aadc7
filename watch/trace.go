package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Trace writes events in the trace-event format of Chrome, as a JSON array: a process for each client,
// in it a track for each lock, on that slices for waits and holds. A slice is written when it is over.
type Trace struct {
	to      io.Writer
	begun   bool
	clients map[string]*traceClient
	tracks  int
	err     error
}

// traceClient is a process of the trace. Its number is not that of the process on its machine, which
// other machines may have, too.
type traceClient struct {
	pid    int
	named  bool
	tracks []*track
}

// track is a row of a process: slices of one lock that do not overlap.
type track struct {
	lock string
	tid  int
	end  int64 // of its last slice, in µs
}

// firstTrack is below the numbers of all tracks, and above those of all processes: viewers take a track
// with the number of its process for the main one.
const firstTrack = 100_000

// mostTraced is how many clients have a process of their own. The others share one.
const mostTraced = 10_000

// NewTrace returns a trace that is written to to.
func NewTrace(to io.Writer) *Trace { return &Trace{to: to, clients: make(map[string]*traceClient)} }

// traceEvent is an event of the format. Instants and durations are in µs.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     int64          `json:"ts"`
	Duration *int64         `json:"dur,omitempty"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Note writes what an event ends.
func (t *Trace) Note(e *Event) {
	switch e.Type {
	case Acquired, Granted:
		if e.Waited > 0 {
			t.slice("wait", e.Time.Add(-e.Waited), e.Time, e, nil)
		}
	case Released, Lost:
		t.slice("hold", e.Since(), e.Time, e, nil)
	case GaveUp:
		t.slice("wait", e.Since(), e.Time, e, map[string]any{"gave_up": true})
	}
	if e.Type == Lost || e.Type == Asked {
		c := t.client(e.Party)
		args := map[string]any{"lock": e.Lock, "why": e.Why}
		if e.Type == Asked {
			args = map[string]any{"lock": e.Lock, "by": e.By, "reason": e.Reason}
		}
		at := e.Time.UnixMicro()
		t.write(traceEvent{Name: string(e.Type), Category: "lock", Phase: "i", Time: at, PID: c.pid, TID: t.track(c, e.Lock, at, at), Scope: "t", Args: args})
	}
}

// End writes what lasts in the last snapshot, and the end of the array. It returns the first error of
// all writes. Last may be nil.
func (t *Trace) End(last *Snapshot) error {
	if last == nil {
		last = &Snapshot{}
	}
	open := map[string]any{"open": true}
	for _, h := range last.Holds {
		e := Event{Lock: h.Lock, Kind: h.Kind, Party: h.Party, Token: h.Token}
		t.slice("hold", h.Since, last.At, &e, open)
	}
	for _, w := range last.Waits {
		e := Event{Lock: w.Lock, Kind: w.Kind, Party: w.Party}
		t.slice("wait", w.Since, last.At, &e, open)
	}
	text := "\n]\n"
	if !t.begun {
		text = "[]\n"
	}
	t.print(text)
	return t.err
}

// slice writes a wait or a hold.
func (t *Trace) slice(what string, from, to time.Time, e *Event, args map[string]any) {
	start, end := from.UnixMicro(), max(to.UnixMicro(), from.UnixMicro()+1)
	all := map[string]any{"lock": e.Lock, "kind": e.Kind, "time": Instant(from)}
	for key, value := range args {
		all[key] = value
	}
	if e.Party.Owner != "" {
		all["owner"] = e.Party.Owner
	}
	if e.Token != 0 {
		all["token"] = e.Token
	}
	if e.Why != "" {
		all["why"] = e.Why
	}
	if e.Type == Lost {
		all["lost"] = true
	}
	c := t.client(e.Party)
	long := end - start
	t.write(traceEvent{Name: what, Category: "lock", Phase: "X", Time: start, Duration: &long, PID: c.pid, TID: t.track(c, e.Lock, start, end), Args: all})
}

// client returns the process of a party, and names it when it is used first.
func (t *Trace) client(p Party) *traceClient {
	id := p.Client
	if id == "" {
		id = p.Owner
	}
	c := t.clients[id]
	if c == nil && len(t.clients) >= mostTraced {
		id, p = "", Party{Owner: "other clients"}
		c = t.clients[id]
	}
	if c == nil {
		c = &traceClient{pid: len(t.clients) + 1}
		t.clients[id] = c
	}
	if !c.named {
		c.named = p.Named()
		name := p.LongText(func(text string) string { return text })
		if c.named || len(c.tracks) == 0 {
			t.write(traceEvent{Name: "process_name", Phase: "M", PID: c.pid, Args: map[string]any{"name": name}})
		}
	}
	return c
}

// track returns the number of a track of a lock that has room for a slice, and names it if it is new. An
// instant, which ends when it starts, has room on every track.
func (t *Trace) track(c *traceClient, lock string, start, end int64) int {
	nth := 0
	for _, one := range c.tracks {
		if one.lock != lock {
			continue
		}
		if nth++; one.end <= start || start == end {
			if start < end {
				one.end = end
			}
			return one.tid
		}
	}
	t.tracks++
	one := &track{lock, firstTrack + t.tracks, end}
	c.tracks = append(c.tracks, one)
	name := lock
	if nth > 0 {
		name = fmt.Sprintf("%s #%d", lock, nth+1)
	}
	t.write(traceEvent{Name: "thread_name", Phase: "M", PID: c.pid, TID: one.tid, Args: map[string]any{"name": name}})
	return one.tid
}

// write writes an event as an element of the array.
func (t *Trace) write(e traceEvent) {
	text, err := json.Marshal(e)
	if err != nil { // nothing in it can fail
		t.err = err
		return
	}
	open := ",\n"
	if !t.begun {
		t.begun, open = true, "[\n"
	}
	t.print(open + string(text))
}

func (t *Trace) print(text string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.to, text)
	}
}
