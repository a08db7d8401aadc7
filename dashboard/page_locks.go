package dashboard

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/watch"
)

// mostRows is how many rows a page has at most.
const mostRows = 100

// locksPage shows all locks, those that hurt most first.
var locksPage = pageKind{
	path: "", title: "Locks", parameters: []string{"q", "kind", "only", "sort"}, form: "locks-form", lead: "locks-lead", body: "locks", look: lookLocks,
}

// locksData is what the page shows.
type locksData struct {
	Seen                            bool // Redis was looked at
	Rows                            []lockRow
	Matching, All, Contended, Waits int
	Filtered                        bool
	Roots                           []rootView
	MoreRoots                       int
	Reset                           string
	Search                          string // why there may be more locks than were found; empty if it is not so
}

// lockRow is a lock in a table.
type lockRow struct {
	ID      string // of the row, so that it is recognized when it moves
	Lock    name
	Kind    string
	Holder  *who
	Since   template.HTML
	More    int // holders
	Waits   int
	Longest template.HTML
	Lease   template.HTML
	Asked   bool
}

// rootView is a client that blocks others, with those that wait behind it.
type rootView struct {
	Who    who
	Behind int
	Holds  []heldLock // that are waited for
	twigs
}

// heldLock is a lock that is held since then.
type heldLock struct {
	Lock  name
	Since template.HTML
}

// twigs are waits for what a client holds.
type twigs struct {
	Waits []twig
	More  int // that are not shown
}

// twig are the waits of a client for a lock, with those that wait for its holds meanwhile.
type twig struct {
	Who   who
	Times int
	Lock  name
	Since template.HTML
	twigs
}

func lookLocks(b *Dashboard, v *view, p *pen) (any, []string) {
	s := p.scene
	s.arrange()
	d := &locksData{Seen: s.look != nil, Search: searchText(b.poller.state().Search), All: len(s.locks), Filtered: v.Get("q") != "" || v.Get("kind") != "" || v.Get("only") != ""}
	var list []*watch.Lock
	for i := range s.locks {
		l := &s.locks[i]
		if len(l.Waits) > 0 {
			d.Contended++
			d.Waits += l.Waiting()
		}
		if wantedLock(l, v) {
			list = append(list, l)
		}
	}
	d.Matching = len(list)
	sortLocks(list, v.Get("sort"))
	var names []string
	if l, ok := b.asked(v, p); ok {
		names = append(names, v.Get("q")) // the next look reads it
		if l != nil {
			d.Matching++
			list = slices.Insert(list, 0, l)
		}
	}
	for _, l := range list[:min(len(list), mostRows)] {
		d.Rows = append(d.Rows, p.lockRow(l))
		names = append(names, l.Name)
	}
	if !d.Filtered {
		d.Roots, d.MoreRoots = p.roots()
	}
	return d, names
}

// searchText says how far the search is for what no record lists; nothing once it has found all.
func searchText(s *watch.Search) string {
	const what = "locks of Redisson, and of clients that hide, "
	switch {
	case s == nil:
		return ""
	case s.Err != nil && s.Passes == 0:
		return "The keys could not be searched, so " + what + "may be missing: " + brief(s.Err.Error())
	case s.Passes == 0:
		return "A search for " + what + "goes on; it has looked at about " + counted(int(s.Keys), "key") + "."
	case s.Left == 1:
		return "A search for " + what + "has found one more name, which is to be read once more."
	case s.Left > 0:
		return "A search for " + what + "has found " + counted(s.Left, "more name") + ", which are to be read once more."
	}
	return ""
}

// asked reports whether the filter may be the name of a lock that no look has seen, and returns that lock if Redis has
// it, held.
func (b *Dashboard) asked(v *view, p *pen) (*watch.Lock, bool) {
	q := v.Get("q")
	if q == "" || strings.ContainsAny(q, "*?[") || v.Get("only") != "" || p.scene.look == nil || p.scene.byName[q] != nil {
		return nil, false
	}
	close := b.poller.detail(q, false, nil)
	l := &watch.Lock{Name: q, Kind: string(close.State.Kind)}
	if l.Holds = p.asInRedis(l, &close); close.Err != nil || len(l.Holds) == 0 || !wantedLock(l, v) {
		return nil, true
	}
	return l, true
}

// wantedLock reports whether a lock is among those that the page is asked for.
func wantedLock(l *watch.Lock, v *view) bool {
	if v.Get("only") == "contended" && len(l.Waits) == 0 {
		return false
	}
	if kind := v.Get("kind"); kind != "" && !strings.HasPrefix(l.Kind, kind) {
		return false
	}
	q := v.Get("q")
	if q == "" || matches(q, l.Name) {
		return true
	}
	if strings.ContainsAny(q, "*?[") {
		return false
	}
	for _, h := range l.Holds {
		if matches(q, h.Party.Host, h.Party.App, h.Party.Owner, processOf(h.Party.Host, h.Party.PID)) {
			return true
		}
	}
	for _, w := range l.Waits {
		if matches(q, w.Party.Host, w.Party.App, w.Party.Client, processOf(w.Party.Host, w.Party.PID)) {
			return true
		}
	}
	return false
}

// sortLocks sorts locks, which are in the order of pain.
func sortLocks(list []*watch.Lock, by string) {
	oldest := func(a, b time.Time) int { // the unknown last
		if a.IsZero() != b.IsZero() {
			return map[bool]int{true: 1, false: -1}[a.IsZero()]
		}
		return a.Compare(b)
	}
	switch by {
	case "name":
		slices.SortStableFunc(list, func(a, b *watch.Lock) int { return cmp.Compare(a.Name, b.Name) })
	case "held":
		slices.SortStableFunc(list, func(a, b *watch.Lock) int { return oldest(a.OldestHold(), b.OldestHold()) })
	case "wait":
		slices.SortStableFunc(list, func(a, b *watch.Lock) int { return oldest(a.OldestWait(), b.OldestWait()) })
	}
}

// lockRow returns a lock as a row.
func (p *pen) lockRow(l *watch.Lock) lockRow {
	r := lockRow{ID: rowID("lock", l.Name), Lock: p.Lock(l.Name), Kind: kindWord(l.Kind), Waits: l.Waiting(), Longest: p.Age(l.OldestWait()), Asked: len(l.Asked) > 0}
	if len(l.Holds) > 0 {
		h := l.Holds[0]
		w := p.Who(&h.Party)
		r.Holder, r.Since, r.More, r.Lease = &w, p.Age(h.Since), len(l.Holds)-1, p.Left(p.scene.end(h))
	}
	return r
}

// roots returns who blocks most others.
func (p *pen) roots() (list []rootView, more int) {
	roots, all := p.scene.roots()
	for _, r := range roots {
		view := rootView{Who: p.Who(r.party), Behind: r.behind}
		for _, h := range r.holds {
			if len(view.Holds) < mostBranches {
				view.Holds = append(view.Holds, heldLock{p.Lock(h.Lock), p.Age(h.Since)})
			}
		}
		view.twigs = p.twigs(clientOf(r.party), r.holds, map[*watch.Wait]bool{}, 1)
		list = append(list, view)
	}
	return list, all - len(list)
}

// twigs returns the waits of others than a client for its holds, and for the holds under which those are.
func (p *pen) twigs(client string, holds []*watch.Hold, seen map[*watch.Wait]bool, depth int) (t twigs) {
	type place struct{ client, lock string }
	places := make(map[place]int)
	for _, h := range holds {
		for _, w := range p.scene.byName[h.Lock].Waits {
			id := clientOf(&w.Party)
			if seen[w] || id == client {
				continue
			}
			seen[w] = true
			i, ok := places[place{id, w.Lock}]
			switch {
			case !ok && len(t.Waits) == mostBranches:
				t.More++
				continue
			case !ok:
				i = len(t.Waits)
				places[place{id, w.Lock}] = i
				t.Waits = append(t.Waits, twig{Who: p.Who(&w.Party), Lock: p.Lock(w.Lock), Since: p.Age(w.Since)})
			}
			one := &t.Waits[i]
			if one.Times++; depth < deepest {
				below := p.twigs(id, p.scene.held(w), seen, depth+1)
				one.Waits, one.More = append(one.Waits, below.Waits...), one.More+below.More
			}
		}
	}
	return t
}

// lockKinds are the kinds by which locks can be chosen.
var lockKinds = []pair{
	{"lock", "lock"}, {"fairlock", "fair lock"}, {"rwlock", "read/write lock"}, {"fencedlock", "fenced lock"}, {"spinlock", "spin lock"},
	{"grouplock", "group lock"}, {"election", "election"}, {"permitsemaphore", "permits"}, {"semaphore", "semaphore"}, {"latch", "latch"},
	{"doublebarrier", "double barrier"},
}

// Kinds returns the kinds by which locks can be chosen.
func (v *view) Kinds() []pair { return lockKinds }

// Paused reports whether the page stays as it is.
func (v *view) Paused() bool { return v.paused }
