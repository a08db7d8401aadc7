package dashboard

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// lockPage shows one lock.
var lockPage = pageKind{path: "lock", title: "Lock", parameters: []string{"name", "done"}, body: "lock", look: lookLock, heading: func(v *view, _ *pen) string {
	return shown(v.Get("name"))
}}

// mostQueue is how many waiters are shown, and mostPast how many past acquisitions.
const mostQueue, mostPast = 50, 20

// lockData is what the page shows.
type lockData struct {
	Name        name
	Done        string // what an action has done
	Kind        string
	Seen        bool
	Held        bool
	Trouble     string // why it cannot be read closely
	Holders     []holderRow
	MoreHolders int
	Number      string // of a semaphore or a latch
	Token       int64
	Value       string // of an election
	Queue       []queueRow
	MoreQueue   int
	Listeners   int
	Way         []chainLink // what the first holder waits for
	Asked       []askedRow
	Timeline    *timeline
	Waits       *histogram
	Past        []pastRow
	PastFrom    string // where the past comes from
	Raw         []rawKey
	CanRelease  bool // there is a link to a release
	ReadOnly    bool
	Commands    []string // in place of a release
	Note        string   // what is to be added to commands
}

// Others returns how many holders there are besides the first one.
func (d *lockData) Others() int { return max(0, len(d.Holders)-1) + d.MoreHolders }

// holderRow is a holder.
type holderRow struct {
	Who     who
	Kind    string
	Since   template.HTML
	Exact   bool
	Lease   template.HTML
	Count   int
	Owner   string
	Release string // the URL of the page that releases it
}

// queueRow is a waiter.
type queueRow struct {
	Place int
	Who   who
	Kind  string
	Since template.HTML
}

type askedRow struct{ Who, By, Reason string }

// pastRow is an acquisition that has ended.
type pastRow struct {
	Ended, Waited, Held, End string
	Bad                      bool
	Who                      who
}

func lookLock(b *Dashboard, v *view, p *pen) (any, []string) {
	name := v.Get("name")
	d := &lockData{Name: p.Lock(name), Done: doneText(v.Get("done")), Seen: p.scene.look != nil, Listeners: -1}
	if name == "" {
		d.Trouble = "the address names no lock"
		return d, nil
	}
	l := p.scene.lock(name)
	d.Kind = kindWord(l.Kind)
	close := b.poller.detail(name, true, func(g *glance) bool { return disagree(l, g) })
	switch {
	case close.Err != nil:
		d.Trouble = close.Err.Error()
	case close.Read && (l.Kind == "" || strings.HasPrefix(string(close.State.Kind), "fenc")):
		d.Kind = kindWord(string(close.State.Kind))
	}
	holds := p.asInRedis(l, &close)
	d.holders(v, p, l, holds, &close)
	d.queue(p, l, &close)
	for _, r := range l.Asked {
		d.Asked = append(d.Asked, askedRow{p.Who(&r.Party).Name, shown(cut(r.By, 200)), shown(cut(r.Reason, 200))})
	}
	d.past(b, p, l, holds, &close)
	d.Raw = b.rawKeys(b.options.Prefix+name, l, &close.State)
	d.ReadOnly = !b.options.Release
	d.Commands = b.commands(name, len(d.Holders) > 0)
	d.Note = b.addressNote()
	return d, []string{name}
}

// holders adds who has the lock. The key says exactly who that is, where it has the owners; the look, up to a second
// late, says since when, and which process it is.
func (d *lockData) holders(v *view, p *pen, l *watch.Lock, holds []*watch.Hold, close *glance) {
	times := make(map[string]int)
	for _, h := range close.State.Holders {
		times[short(h.Owner)] = h.Count
	}
	for _, h := range holds {
		if len(d.Holders) == mostQueue {
			d.MoreHolders++
			continue
		}
		row := holderRow{
			Who: p.Who(&h.Party), Kind: kindWord(h.Kind), Since: p.Age(h.Since), Exact: h.Exact, Lease: p.Left(p.scene.end(h)),
			Count: times[short(h.Party.Owner)], Owner: shown(cut(h.Party.Owner, 200)),
		}
		if h.Party.Owner != "" && v.releases(l.Name, h.Party.Owner) {
			d.CanRelease, row.Release = true, href(releasePath, "lock", l.Name, "owner", h.Party.Owner)
		}
		d.Token = max(d.Token, h.Token)
		d.Holders = append(d.Holders, row)
	}
	if total := len(close.State.Holders) + close.State.Unlisted; close.State.Unlisted > 0 {
		d.MoreHolders = max(d.MoreHolders, total-len(d.Holders))
	}
	d.Held = len(d.Holders) > 0 || len(close.State.Permits) > 0
	d.Token = max(d.Token, close.State.Token)
	if close.State.Value != "" {
		d.Value = shown(cut(close.State.Value, 200))
	}
	if close.Read && (close.State.Kind == mortise.KindNumber || close.State.Kind == mortise.KindPermits) {
		d.Number = strconv.FormatInt(close.State.Number, 10)
	}
	if len(holds) > 0 {
		d.Way = p.WayOf(holds[0])
	}
}

// asInRedis returns the holds that a key has, with what is known of them; those of the look if the key has no owners, and
// also those if it has more than can be listed.
func (p *pen) asInRedis(l *watch.Lock, close *glance) (holds []*watch.Hold) {
	s, known := &close.State, l.Holds
	if !hasOwners(l, close) {
		return known
	}
	if s.Unlisted > 0 {
		holds = slices.Clone(known)
	}
	for _, h := range s.Holders {
		i := slices.IndexFunc(known, func(k *watch.Hold) bool { return short(k.Party.Owner) == short(h.Owner) })
		switch {
		case i >= 0 && s.Unlisted > 0:
			continue
		case i >= 0:
			holds = append(holds, known[i])
			continue
		}
		one := &watch.Hold{Lock: s.Name, Kind: string(s.Kind), Party: watch.Party{Owner: h.Owner}}
		if s.TTL > 0 {
			one.Until = p.now.Add(s.TTL - time.Since(close.At)).Truncate(time.Second)
		}
		one.Party = *p.scene.named(&one.Party)
		holds = append(holds, one)
	}
	if s.Unlisted == 0 { // else those of which more is known stay the first
		slices.SortStableFunc(holds, func(a, b *watch.Hold) int { return a.Since.Compare(b.Since) })
	}
	return holds
}

// hasOwners reports whether the key that was read has the owners of the lock.
func hasOwners(l *watch.Lock, g *glance) bool {
	return g.Read && g.Err == nil && !counts(l.Kind) && l.Kind != "doublebarrier" && g.State.Kind != mortise.KindPermits
}

// disagree reports whether a key that was read has other owners than a look has seen: one of them is late.
func disagree(l *watch.Lock, g *glance) bool {
	if !hasOwners(l, g) || g.State.Unlisted > 0 || len(g.State.Holders) != len(l.Holds) {
		return hasOwners(l, g) && g.State.Unlisted == 0
	}
	return slices.ContainsFunc(g.State.Holders, func(h mortise.Holder) bool {
		return !slices.ContainsFunc(l.Holds, func(k *watch.Hold) bool { return short(k.Party.Owner) == short(h.Owner) })
	})
}

// short returns an owner without the suffix that it has as a writer, which records may leave out.
func short(owner string) string { return strings.TrimSuffix(owner, ":write") }

// queue adds who waits, in order.
func (d *lockData) queue(p *pen, l *watch.Lock, close *glance) {
	if close.Read && close.Err == nil {
		d.Listeners, d.MoreQueue = close.Queue.Listeners, close.Queue.Unlisted
		for i, w := range close.Queue.Waiters {
			if i == mostQueue {
				d.MoreQueue += len(close.Queue.Waiters) - i
				break
			}
			party := watch.Party{Client: w.Owner, Owner: w.Owner}
			if w.Client != nil {
				party = watch.Party{Client: w.Client.ID, Host: w.Client.Host, PID: w.Client.PID, App: w.Client.App, Command: w.Client.Command()}
			} else if strings.Contains(w.Owner, ":") {
				party.Client = ""
			}
			d.Queue = append(d.Queue, queueRow{i + 1, p.Who(&party), kindWord(w.Kind), p.Age(w.Since)})
		}
		return
	}
	for i, w := range l.Waits {
		if i == mostQueue {
			d.MoreQueue = l.Waiting() - i
			break
		}
		d.Queue = append(d.Queue, queueRow{i + 1, p.Who(&w.Party), kindWord(w.Kind), p.Age(w.Since)})
	}
}

// spell is a time for which a client waited for a lock, and had it.
type spell struct {
	party  watch.Party
	ended  time.Time // zero if it lasts
	held   time.Duration
	waited time.Duration // -1 if that is not known
	end    string
	bad    bool // it was lost
	waits  bool // it waits still
}

// past adds the last acquisitions.
func (d *lockData) past(b *Dashboard, p *pen, l *watch.Lock, holds []*watch.Hold, close *glance) {
	spells := recorded(close.History)
	d.PastFrom = "its clients’ record"
	if len(spells) == 0 {
		spells = b.witnessed(l.Name)
		d.PastFrom = "what this dashboard has seen"
		if _, since := b.poller.said(); !since.IsZero() {
			d.PastFrom += " since " + p.Clock(since) + " UTC"
		}
	}
	for i, s := range spells {
		if i == mostPast {
			break
		}
		d.Past = append(d.Past, pastRow{p.Clock(s.ended), exact(s.waited), exact(s.held), s.end, s.bad, p.Who(&s.party)})
	}
	var waits []time.Duration
	for _, s := range spells {
		if s.waited >= 0 {
			waits = append(waits, s.waited)
		}
	}
	d.Waits = histogramOf(waits)
	var lasting []spell
	for _, h := range holds {
		if h.Since.IsZero() {
			continue // it has begun a moment ago
		}
		lasting = append(lasting, spell{party: h.Party, held: p.now.Sub(h.Since), waited: max(0, h.Waited)})
	}
	for _, w := range l.Waits {
		lasting = append(lasting, spell{party: w.Party, waited: p.now.Sub(w.Since), waits: true})
	}
	d.Timeline = p.timelineOf(append(lasting, spells...))
}

// recorded returns what the clients of a lock have recorded, the newest first.
func recorded(history []mortise.Acquisition) (spells []spell) {
	for _, a := range history {
		party := watch.Party{Owner: a.Owner, Host: a.Host, PID: a.PID, App: a.App, Command: a.Command}
		party.Client, _, _ = strings.Cut(a.Owner, ":")
		spells = append(spells, spell{party: party, ended: a.Ended, held: a.Held, waited: a.Waited, end: endWord(a.End), bad: a.End != "released"})
	}
	return spells
}

// endWord is the word for the end of an acquisition.
func endWord(end string) string {
	if end == "released" {
		return end
	}
	return "lost: " + shown(brief(end))
}

// witnessed returns what the dashboard has seen of a lock, the newest first.
func (b *Dashboard) witnessed(lock string) (spells []spell) {
	events, _ := b.poller.happened(4*mostHistory, func(e *watch.Event) bool { return e.Lock == lock })
	waited := make(map[string]time.Duration) // by owner, of the acquisition before
	slices.Reverse(events)
	for i := range events {
		switch e := &events[i]; e.Type {
		case watch.Acquired, watch.Granted, watch.Held:
			waited[e.Party.Owner] = e.Waited
		case watch.Released, watch.Lost:
			s := spell{party: e.Party, ended: e.Time, held: e.Held, waited: -1, end: string(e.Type), bad: e.Type == watch.Lost}
			if w, ok := waited[e.Party.Owner]; ok {
				s.waited = w
				delete(waited, e.Party.Owner)
			}
			spells = append(spells, s)
		}
	}
	slices.Reverse(spells)
	return spells[:min(len(spells), mostHistory)]
}
