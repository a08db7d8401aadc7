package dashboard

import (
	"html/template"
	"strconv"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// countsPage shows semaphores and latches.
var countsPage = pageKind{path: "semaphores", title: "Semaphores", parameters: []string{"q"}, form: "counts-form", body: "counts", look: lookCounts}

// countsData is what the page shows.
type countsData struct {
	Seen     bool
	Rows     []countRow
	All      int
	Matching int
	Filtered bool
}

// countRow is a semaphore or a latch.
type countRow struct {
	ID      string
	Lock    name
	Kind    string
	Number  string
	Holders []who
	More    int
	Holds   int
	Waits   int
	Longest template.HTML
}

// mostCounted is how many numbers are read.
const mostCounted, mostHolders = 20, 3

func lookCounts(b *Dashboard, v *view, p *pen) (any, []string) {
	s := p.scene
	s.arrange()
	d := &countsData{Seen: s.look != nil, Filtered: v.Get("q") != ""}
	for i := range s.locks {
		l := &s.locks[i]
		if !hasCount(l) {
			continue
		}
		d.All++
		if !matches(v.Get("q"), l.Name) {
			continue
		}
		if d.Matching++; len(d.Rows) >= mostRows {
			continue
		}
		r := countRow{ID: rowID("lock", l.Name), Lock: p.Lock(l.Name), Kind: kindWord(l.Kind), Holds: len(l.Holds), Waits: l.Waiting(), Longest: p.Age(l.OldestWait())}
		for _, h := range l.Holds {
			if len(r.Holders) == mostHolders {
				r.More = len(l.Holds) - mostHolders
				break
			}
			r.Holders = append(r.Holders, p.Who(&h.Party))
		}
		if len(d.Rows) < mostCounted {
			close := b.poller.detail(l.Name, false, nil)
			r.Number = numberText(&close)
		}
		d.Rows = append(d.Rows, r)
	}
	return d, nil
}

// hasCount reports whether a name is that of a semaphore or a latch, according to its clients.
func hasCount(l *watch.Lock) bool {
	if counts(l.Kind) {
		return true
	}
	for _, w := range l.Waits {
		if counts(w.Kind) {
			return true
		}
	}
	return false
}

// numberText writes the number of a semaphore or a latch; nothing if it is not known.
func numberText(g *glance) string {
	if !g.Read || g.Err != nil {
		return ""
	}
	switch g.State.Kind {
	case mortise.KindNumber, mortise.KindPermits:
		return strconv.FormatInt(g.State.Number, 10)
	case mortise.KindNone:
		return "0"
	}
	return ""
}
