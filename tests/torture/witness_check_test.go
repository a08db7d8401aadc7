package torture

import (
	"testing"

	"github.com/mortise-go/mortise/internal/torture"
)

// What the witness says of a holder whose key was deleted from 10 to 11, and that released at 20.
func TestWhatIsSaidOfADeletedKey(t *testing.T) {
	loads := []torture.Load{{Kind: "lock", Name: "left"}, {Kind: "spin", Name: "left"}, {Kind: "fenced", Name: "left", Fenced: true}, {Kind: "lock", Name: "right"}}
	holder := func(load int) *section {
		return &section{place: place{1, 0}, load: load, start: 5, last: 19, ended: 20, owner: "me"}
	}
	next := func(class string, noticed int64) *section {
		return &section{place: place{1, 1}, start: 20, last: 25, ended: 26, owner: "me", class: class, lost: class == "lost", noticed: noticed}
	}
	told := holder(0)
	told.class, told.lost, told.noticed = "lost", true, 15
	early := holder(0)
	early.last, early.ended = 9, 10
	for name, c := range map[string]struct {
		sections       []*section
		waits          []waited
		bad            bool
		taken, unaware int
	}{
		"it is told":                     {[]*section{told}, nil, false, 1, 0},
		"it had released it":             {[]*section{early}, nil, false, 0, 0},
		"another had it":                 {[]*section{{owner: "you", start: 5, last: 19, ended: 20}}, nil, false, 0, 0},
		"it is not told":                 {[]*section{holder(0)}, nil, true, 1, 0},
		"the next goroutine is told":     {[]*section{holder(0), next("lost", 22)}, []waited{{place{1, 1}, span{8, 20}, 0}}, false, 1, 0},
		"the next goroutine is not told": {[]*section{holder(0), next("", 0)}, nil, true, 1, 0},
		"a goroutine waits on":           {[]*section{holder(0)}, []waited{{place{1, 1}, span{8, 30}, 0}}, false, 1, 1},
		"a goroutine with a token":       {[]*section{holder(2)}, []waited{{place{1, 1}, span{8, 30}, 2}}, false, 1, 1},
		"a goroutine comes after it":     {[]*section{holder(0)}, []waited{{place{1, 1}, span{21, 30}, 0}}, true, 1, 0},
		"a goroutine has left before":    {[]*section{holder(0)}, []waited{{place{1, 1}, span{8, 15}, 0}}, true, 1, 0},
		"another client waits":           {[]*section{holder(0)}, []waited{{place{2, 1}, span{8, 30}, 0}}, true, 1, 0},
		"a goroutine waits for another":  {[]*section{holder(0)}, []waited{{place{1, 1}, span{8, 30}, 3}}, true, 1, 0},
		"a kind without hand-off":        {[]*section{holder(1)}, []waited{{place{1, 1}, span{8, 30}, 1}}, true, 1, 0},
	} {
		w := &witness{loads: loads, sections: c.sections, waits: c.waits}
		w.reported(taken{span{10, 11}, "me"})
		if len(w.bad) > 0 != c.bad || w.tally.taken != c.taken || w.tally.unaware != c.unaware {
			t.Errorf("%s: it says %q, of %d, %d unaware; want bad: %v, %d, %d", name, w.bad, w.tally.taken, w.tally.unaware, c.bad, c.taken, c.unaware)
		}
	}
}
