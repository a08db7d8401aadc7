package torture

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// What checks histories is shown ones with and without mistakes.
func TestOverlaps(t *testing.T) {
	a := func(from, to int64) use { return use{span: span{from, to}, mode: alone} }
	s := func(from, to int64) use { return use{span: span{from, to}, mode: shared} }
	p := func(from, to int64) use { return use{span: span{from, to}, mode: permit} }
	for name, c := range map[string]struct {
		uses []use
		want int
	}{
		"one after the other":          {[]use{a(1, 5), a(5, 9), a(10, 12)}, 0},
		"two at once":                  {[]use{a(1, 5), a(4, 9)}, 1},
		"one inside another":           {[]use{a(1, 50), a(4, 9), a(20, 30)}, 2},
		"readers":                      {[]use{s(1, 5), s(2, 7), s(3, 4)}, 0},
		"a writer among readers":       {[]use{s(1, 5), s(2, 7), a(6, 8)}, 1},
		"a reader comes to a writer":   {[]use{a(1, 5), s(2, 7)}, 1},
		"as many permits as there are": {[]use{p(1, 5), p(2, 6), p(5, 7)}, 0},
		"one permit too many":          {[]use{p(1, 5), p(2, 6), p(3, 4)}, 1},
		"never valid":                  {[]use{a(1, 9), a(4, 4)}, 0},
		"out of order":                 {[]use{a(4, 9), a(1, 5)}, 1},
	} {
		h := history{thing: "x", permits: 2, uses: c.uses}
		if got := h.overlaps(); len(got) != c.want {
			t.Errorf("%s: %d overlaps, want %d: %v", name, len(got), c.want, got)
		}
	}
}

func TestAdmittedOverlaps(t *testing.T) {
	const ms, ttl = int64(time.Millisecond), 300 * time.Millisecond
	at := func(older, from, to int64) overlap {
		return overlap{span: span{from * ms, to * ms}, uses: []use{{span: span{older * ms, to * ms}}, {span: span{from * ms, to * ms}}}}
	}
	asked := func(o overlap, older int64) overlap {
		o.uses[0].asked, o.uses[1].asked = older*ms, o.from
		return o
	}
	faults := []span{{1000 * ms, 1010 * ms}}
	for name, c := range map[string]struct {
		overlap overlap
		want    bool
	}{
		"an older hold learns it in time": {at(900, 1020, 1310), true},
		"it learns it too late":           {at(900, 1020, 1311), false},
		"the reply came after the fault":  {asked(at(1110, 1120, 1300), 1009), true},
		"it was asked for after it":       {asked(at(1110, 1120, 1300), 1011), false},
		"both are younger":                {asked(at(1111, 1120, 1300), 1009), false},
		"before the fault":                {at(900, 950, 999), false},
		"both are older":                  {at(900, 990, 1020), false},
	} {
		if got := admitted(c.overlap, faults, ttl); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A hold may be younger than the loss and its lease older: the lease was handed on inside its client since then.
func TestLeaseThatWasHandedOnIsAsOldAsItsFirstHold(t *testing.T) {
	const ms, ttl = int64(time.Millisecond), 300 * time.Millisecond
	for name, c := range map[string]struct {
		owner string
		want  bool
	}{
		"the lease of the one before": {"a:1", true},
		"a lease of its own":          {"a:2", false},
		"another kind of hold":        {"", false},
	} {
		w := &witness{loads: []torture.Load{{Kind: "lock", Name: "job"}}, sections: []*section{
			{place: place{1, 0}, owner: "a:1", asked: 800 * ms, start: 900 * ms, last: 1150 * ms, ended: 1151 * ms},
			{place: place{2, 0}, owner: "b:1", asked: 850 * ms, start: 1120 * ms, last: 1290 * ms, ended: 1291 * ms},
			{place: place{1, 1}, owner: c.owner, asked: 1015 * ms, start: 1160 * ms, last: 1200 * ms, ended: 1201 * ms},
		}}
		var bad int
		for _, h := range w.histories() {
			for _, o := range h.overlaps() {
				if !admitted(o, []span{{1000 * ms, 1010 * ms}}, ttl) {
					bad++
				}
			}
		}
		if bad > 0 == c.want {
			t.Errorf("%s: %d overlaps are not admitted, want admitted: %v", name, bad, c.want)
		}
	}
}
