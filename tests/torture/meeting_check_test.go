package torture

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// What checks meetings is shown ones with and without mistakes.
func TestMeetings(t *testing.T) {
	const lease = 10 * time.Nanosecond
	at := func(came, passed, leaves, gone int64, class string) *party {
		return &party{load: torture.Load{Kind: "barrier", Name: "x", Units: 2}, came: came, passed: passed, valid: leaves, leaves: leaves, gone: gone, class: class}
	}
	killed := func(came, passed, gone int64) *party {
		return &party{load: torture.Load{Units: 2}, came: came, passed: passed, valid: passed, gone: gone, killed: true}
	}
	for name, c := range map[string]struct {
		parties                  []*party
		together, broken, stayed int
	}{
		"two meet":                              {parties: []*party{at(1, 5, 6, 8, ""), at(3, 4, 7, 9, "")}},
		"one alone":                             {parties: []*party{at(1, 5, 6, 8, "")}, together: 1},
		"one after the other":                   {parties: []*party{at(1, 5, 6, 8, ""), at(7, 9, 10, 11, "")}, together: 2},
		"a third is there":                      {parties: []*party{at(1, 5, 6, 8, ""), at(3, 4, 7, 9, ""), at(4, 0, 0, 9, "missing")}},
		"with one that gives up just then":      {parties: []*party{at(1, 5, 6, 8, ""), at(2, 0, 0, 3, "context")}},
		"long after one has given up":           {parties: []*party{at(21, 25, 26, 28, ""), at(2, 0, 0, 3, "context")}, together: 1},
		"the other is told that it is broken":   {parties: []*party{at(1, 5, 6, 8, ""), at(2, 0, 0, 6, "broken"), killed(1, 0, 2)}},
		"all are told so, and none has gone":    {parties: []*party{at(1, 0, 0, 8, "broken"), at(2, 0, 0, 6, "broken")}, broken: 2},
		"told so because one died":              {parties: []*party{at(3, 0, 0, 8, "broken"), killed(1, 0, 2)}},
		"passes with one that was told so":      {parties: []*party{at(30, 35, 36, 38, ""), at(32, 0, 0, 36, "broken"), at(1, 0, 0, 2, "context")}, together: 1},
		"one stays inside":                      {parties: []*party{at(1, 3, 4, 5, ""), at(2, 3, 9, 10, "missing")}, stayed: 1},
		"one stays, which the other is told":    {parties: []*party{at(1, 3, 4, 5, "missing"), at(2, 3, 9, 10, "")}},
		"the other leaves while this one waits": {parties: []*party{at(1, 3, 4, 10, ""), at(2, 3, 9, 11, "")}},
		"the other has died inside":             {parties: []*party{at(1, 3, 4, 10, "broken"), killed(2, 3, 4)}},
	} {
		if got := together(c.parties, lease); len(got) != c.together {
			t.Errorf("%s: %d passed alone, want %d: %q", name, len(got), c.together, got)
		}
		if got := stayed(c.parties); len(got) != c.stayed {
			t.Errorf("%s: %d have left too early, want %d: %q", name, len(got), c.stayed, got)
		}
		if got := brokenBy(c.parties, lease); c.stayed == 0 && c.parties[0].class != "missing" && c.parties[0].leaves == 0 && len(got) != c.broken {
			t.Errorf("%s: %d were told that it is broken without a reason, want %d: %q", name, len(got), c.broken, got)
		}
	}
}
