package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// A watch that has seen nothing in all of its time fails as its looks have, or for want of an answer.
func TestWatchOutcome(t *testing.T) {
	denied := fmt.Errorf("%w: no right", mortise.ErrDenied)
	seen, unseen, failed := watch.Load{Looks: 1}, watch.Load{}, watch.Load{Failures: 9, Err: denied}
	for _, test := range []struct {
		load watch.Load
		err  error
		want int
	}{
		{seen, errOver, 0}, {unseen, errOver, exitUnreachable}, {failed, errOver, exitDenied}, {watch.Load{Looks: 1, Err: denied}, errOver, 0},
		{seen, errEnough, 0}, {unseen, &exitError{code: exitSignal + 2, signal: 2}, 0}, {failed, denied, exitDenied},
	} {
		r := watchResult{load: test.load}
		if err := r.outcome(test.err, time.Second); exitCode(err) != test.want {
			t.Errorf("%d looks, ended by %v: %v, exit code %d, want %d", test.load.Looks, test.err, err, exitCode(err), test.want)
		}
	}
}

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
