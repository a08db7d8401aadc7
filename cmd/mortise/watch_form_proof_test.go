//go:build proof

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// watched is what watch has written in JSON.
type watched struct {
	events  []eventLine
	notes   []noteLine
	summary summaryLine
}

// parseWatch parses what watch has written in JSON, and fails the test if it is not what docs/watch.md
// says: no other fields, those that are always there, instants in UTC.
func parseWatch(t *testing.T, text string) (w watched) {
	t.Helper()
	for line := range strings.Lines(text) {
		var head struct {
			Type string `json:"type"`
			Time string `json:"time"`
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%q: %v", line, err)
		}
		if head.Time != "" && !strings.HasSuffix(head.Time, "Z") {
			t.Errorf("%q is not in UTC", line)
		}
		switch head.Type {
		case "summary":
			strictly(t, line, &w.summary)
		case "note":
			w.notes = append(w.notes, strictly(t, line, &noteLine{}))
		default:
			w.events = append(w.events, strictly(t, line, &eventLine{}).checked(t))
		}
	}
	if w.summary.Type == "" {
		t.Errorf("there is no summary in %s", text)
	}
	return w
}

func strictly[T any](t *testing.T, line string, v *T) T {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return *v
}

// checked fails the test if a field is missing that is always there.
func (e eventLine) checked(t *testing.T) eventLine {
	t.Helper()
	waits := e.Type == "waiting" || e.Type == "gave_up"
	if e.Lock == nil || e.Kind == nil || e.Seen.IsZero() || e.Time.IsZero() || (e.Waiter != nil) != waits || (e.Holder != nil) == waits {
		t.Errorf("%+v lacks a field", e)
	}
	return e
}

// party returns the holder or the waiter.
func (e *eventLine) party() *partyLine {
	if e.Holder != nil {
		return e.Holder
	}
	return e.Waiter
}

// tracedSlices parses a trace, and returns its slices, as "hold job", and the names of its processes.
func tracedSlices(t *testing.T, text string) (slices map[string]bool, processes map[int]string) {
	t.Helper()
	var list []struct {
		Name string         `json:"name"`
		Ph   string         `json:"ph"`
		TS   *int64         `json:"ts"`
		Dur  int64          `json:"dur"`
		PID  int            `json:"pid"`
		TID  int            `json:"tid"`
		Args map[string]any `json:"args"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	slices, processes = make(map[string]bool), make(map[int]string)
	tracks := make(map[int]any)
	for _, e := range list {
		switch e.Ph + " " + e.Name {
		case "M process_name":
			processes[e.PID] = fmt.Sprint(e.Args["name"])
		case "M thread_name":
			tracks[e.TID] = e.Args["name"]
		case "X hold", "X wait":
			slices[fmt.Sprint(e.Name, " ", e.Args["lock"])] = true
			if e.TS == nil || e.Dur <= 0 || processes[e.PID] == "" || tracks[e.TID] != e.Args["lock"] {
				t.Errorf("%+v has no time, no duration, or no process or track with a name", e)
			}
		default:
			t.Errorf("%+v was not expected", e)
		}
	}
	return slices, processes
}
