package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestEventJSON(t *testing.T) {
	api := Party{Owner: idA + ":1", Client: idA, Host: "api-7", PID: 4121, App: "shop", Command: "pay.sh"}
	for _, test := range []struct {
		e    Event
		want string
	}{
		{Event{Type: Granted, Time: at(1), Seen: at(2), Lock: "a\x1b<b>", Kind: "lock", Party: api, From: &Party{Owner: idR + ":7", Client: idR}, Token: 9, Waited: 0, Held: -1},
			`{"type":"granted","time":"2026-11-24T03:00:00.001Z","seen":"2026-11-24T03:00:00.002Z","lock":"a\u001b\u003cb\u003e","kind":"lock",` +
				`"holder":{"owner":"` + idA + `:1","client":"` + idA + `","host":"api-7","pid":4121,"app":"shop","command":"pay.sh"},"from":{"owner":"` + idR + `:7","client":"` + idR + `"},"token":9,"waited_ms":0}`},
		{Event{Type: GaveUp, Time: at(1).In(time.FixedZone("", 3600)), Seen: at(2), Lock: "j", Kind: "lock", Party: Party{Client: idB}, For: &api, Waited: 1500 * time.Microsecond, Held: -1, Unsure: true},
			`{"type":"gave_up","time":"2026-11-24T03:00:00.001Z","seen":"2026-11-24T03:00:00.002Z","lock":"j","kind":"lock","waiter":{"client":"` + idB + `"},` +
				`"for":{"owner":"` + idA + `:1","client":"` + idA + `","host":"api-7","pid":4121,"app":"shop","command":"pay.sh"},"waited_ms":1,"unsure":true}`},
		{Event{Type: Lost, Time: at(1), Seen: at(2), Lock: "j", Kind: "lock", Party: Party{Owner: "x"}, Waited: -1, Held: time.Second, Why: "its lease was over"},
			`{"type":"lost","time":"2026-11-24T03:00:00.001Z","seen":"2026-11-24T03:00:00.002Z","lock":"j","kind":"lock","holder":{"owner":"x"},"held_ms":1000,"why":"its lease was over"}`},
		{Event{Type: Asked, Time: at(1), Seen: at(2), Lock: "j", Kind: "lock", Party: Party{Owner: "x"}, Waited: -1, Held: -1, By: "ops pid 1", Reason: "deploy"},
			`{"type":"asked","time":"2026-11-24T03:00:00.001Z","seen":"2026-11-24T03:00:00.002Z","lock":"j","kind":"lock","holder":{"owner":"x"},"by":"ops pid 1","reason":"deploy"}`},
	} {
		if got, err := json.Marshal(&test.e); string(got) != test.want || err != nil {
			t.Errorf("%v\n%s, %v; want\n%s", test.e.Type, got, err, test.want)
		}
	}
}

// traced is an event of a trace, as viewers read it.
type traced struct {
	Name string         `json:"name"`
	Ph   string         `json:"ph"`
	TS   *int64         `json:"ts"`
	Dur  *int64         `json:"dur"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	S    string         `json:"s"`
	Args map[string]any `json:"args"`
}

// after returns when a slice ends. It fails the test if the slice begins before the end of another.
func (e *traced) after(t *testing.T, end int64) int64 {
	t.Helper()
	if e.Dur == nil || *e.Dur <= 0 || *e.TS < end {
		t.Fatalf("%+v has no duration, or overlaps the slice before", e)
	}
	return *e.TS + *e.Dur
}

// parsedTrace parses a trace, and fails the test if it is not one that viewers accept: slices of a
// track do not overlap, and processes and tracks have names.
func parsedTrace(t *testing.T, text []byte) []traced {
	t.Helper()
	var list []traced
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	processes, tracks := make(map[int]bool), make(map[int]int)
	ends := make(map[int]int64)
	for _, e := range list {
		if e.TS == nil || e.PID == 0 {
			t.Fatalf("%+v has no ts or no pid", e)
		}
		switch {
		case e.Ph == "M" && e.Name == "process_name":
			processes[e.PID] = e.Args["name"] != ""
		case e.Ph == "M" && e.Name == "thread_name":
			tracks[e.TID] = e.PID
		case !processes[e.PID] || tracks[e.TID] != e.PID:
			t.Errorf("%+v is of a process or a track without a name", e)
		case e.Ph == "X":
			ends[e.TID] = e.after(t, ends[e.TID])
		case e.Ph != "i" || e.S != "t":
			t.Errorf("%+v is not an event that is written", e)
		}
	}
	return list
}

func TestTrace(t *testing.T) {
	a, b := Party{Owner: idA + ":1", Client: idA, Host: "api-7", PID: 4121, App: "shop"}, Party{Client: idB, Host: "api-9", PID: 4121}
	var text bytes.Buffer
	trace := NewTrace(&text)
	for _, e := range []Event{
		{Type: Waiting, Time: at(0), Lock: "job", Party: b, since: at(0)},
		{Type: Released, Time: at(1000), Lock: "job", Kind: "lock", Party: a, Token: 7, since: at(-500)},
		{Type: Granted, Time: at(1000), Lock: "job", Kind: "lock", Party: b, Waited: time.Second, since: at(1000)},
		{Type: GaveUp, Time: at(1500), Lock: "job", Party: b, since: at(300)},
		{Type: Asked, Time: at(1600), Lock: "job", Party: b, By: "ops"},
		{Type: Lost, Time: at(2000), Lock: "job", Party: b, since: at(1000), Why: "its lease was over"},
	} {
		trace.Note(&e)
	}
	end := &Snapshot{At: at(3000), Holds: map[HoldKey]*Hold{{}: {Lock: "other", Party: a, Since: at(2500)}}, Waits: map[WaitKey]*Wait{{}: {Lock: "other", Party: b, Since: at(2600)}}}
	if err := trace.End(end); err != nil {
		t.Fatal(err)
	}
	type slice struct {
		name     string
		pid, tid int
		ts, dur  int64
	}
	us := func(ms int) int64 { return at(ms).UnixMicro() }
	want := []slice{
		{"hold", 1, 100001, us(-500), 1500_000}, {"wait", 2, 100002, us(0), 1000_000}, {"wait", 2, 100003, us(300), 1200_000},
		{"hold", 2, 100002, us(1000), 1000_000}, {"hold", 1, 100004, us(2500), 500_000}, {"wait", 2, 100005, us(2600), 400_000},
	}
	var got []slice
	var names []any
	for _, e := range parsedTrace(t, text.Bytes()) {
		switch e.Ph {
		case "X":
			got = append(got, slice{e.Name, e.PID, e.TID, *e.TS, *e.Dur})
		case "M":
			names = append(names, e.Args["name"])
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the slices are\n%v, want\n%v", got, want)
	}
	if want := []any{"api-7 pid 4121 (shop)", "job", "api-9 pid 4121", "job", "job #2", "other", "other"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the names are %q, want %q", names, want)
	}
}

func TestEmptyTrace(t *testing.T) {
	var text bytes.Buffer
	if err := NewTrace(&text).End(nil); err != nil || text.String() != "[]\n" {
		t.Errorf("it is %q, %v", text.String(), err)
	}
}

// broken is a writer that fails.
type broken struct{ writes int }

var errBroken = errors.New("broken")

func (b *broken) Write([]byte) (int, error) { b.writes++; return 0, errBroken }

func TestTraceIntoABrokenPipe(t *testing.T) {
	var to broken
	trace := NewTrace(&to)
	for range 3 {
		trace.Note(&Event{Type: Released, Time: at(1), Lock: "job", since: at(0)})
	}
	if err := trace.End(nil); !errors.Is(err, errBroken) || to.writes != 1 {
		t.Errorf("%d writes, %v; want one, and its error", to.writes, err)
	}
}

func TestSummary(t *testing.T) {
	a, b := Party{Host: "api-7", PID: 1}, Party{Host: "api-9", PID: 2}
	var s Summary
	for _, e := range []Event{
		{Type: Held, Lock: "job", Party: a, Held: time.Hour},
		{Type: Acquired, Lock: "job", Party: a, Waited: -1}, {Type: Released, Lock: "job", Party: a, Held: 3 * time.Second},
		{Type: Granted, Lock: "job", Party: b, Waited: 2 * time.Second}, {Type: Lost, Lock: "job", Party: b, Held: time.Second},
		{Type: GaveUp, Lock: "job", Party: a, Waited: time.Second}, {Type: Acquired, Lock: "quiet", Party: a, Waited: -1},
	} {
		s.Note(&e)
	}
	last := &Snapshot{At: at(5000), Holds: map[HoldKey]*Hold{{}: {Lock: "quiet", Party: a, Since: at(0), Exact: true}}, Waits: map[WaitKey]*Wait{{}: {Lock: "quiet", Party: b, Since: at(4000)}}}
	want := []LockSummary{
		{Lock: "job", Acquisitions: 2, Lost: 1, GaveUp: 1, LongestHold: Record{3 * time.Second, a}, LongestWait: Record{2 * time.Second, b}},
		{Lock: "quiet", Acquisitions: 1, LongestHold: Record{5 * time.Second, a}, LongestWait: Record{time.Second, b}, HoldersAtTheEnd: 1, WaitersAtEnd: 1},
	}
	if got := s.Locks(last); !reflect.DeepEqual(got, want) || s.Events != 7 {
		t.Errorf("%d events, %+v; want 7, %+v", s.Events, got, want)
	}
}

// A summary of very many locks stays small.
func TestSummaryIsBounded(t *testing.T) {
	var s Summary
	for i := range mostLocks + 5 {
		s.Note(&Event{Type: Acquired, Lock: time.Duration(i).String()})
	}
	if n := len(s.Locks(nil)); n != mostLocks || s.Others != 5 {
		t.Errorf("it lists %d and counts %d others, want %d and 5", n, s.Others, mostLocks)
	}
}
