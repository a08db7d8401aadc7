package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// The docs have every field.
func TestWatchDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/watch.md")
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, v := range []any{partyLine{}, eventLine{}, noteLine{}, summaryLine{Search: new(summaryLine).Search}, longestLine{}} {
		form, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(form, &all); err != nil {
			t.Fatal(err)
		}
		for name := range all {
			fields = append(fields, name)
		}
	}
	fields = append(fields, "acquisitions", "lost", "gave_up", "longest_wait", "longest_hold", "holders", "waiters", "passes", "keys", "failed")
	for _, name := range fields {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("docs/watch.md does not have %q", name)
		}
	}
}
