package dashboard

import (
	"strings"
	"time"

	"github.com/mortise-go/mortise/watch"
)

// eventsPage shows what has happened lately.
var eventsPage = pageKind{path: "events", title: "Events", parameters: []string{"q", "type"}, form: "events-form", body: "events", look: lookEvents}

// eventsData is what the page shows.
type eventsData struct {
	Seen     bool
	Rows     []eventRow
	Kept     int
	Since    string
	Filtered bool
	Most     int
}

// eventRow is an event.
type eventRow struct {
	ID   string
	At   string
	Type string
	Bad  bool
	Lock name
	Who  who
	Text string
	Of   *who // the other party that Text is about
}

func lookEvents(b *Dashboard, v *view, p *pen) (any, []string) {
	q, kind := v.Get("q"), v.Get("type")
	d := &eventsData{Seen: p.scene.look != nil, Filtered: q != "" || kind != "", Most: mostRows}
	events, kept := b.poller.happened(mostRows, func(e *watch.Event) bool {
		if kind != "" && !strings.Contains(" "+kinds[kind]+" ", " "+string(e.Type)+" ") {
			return false
		}
		return matches(q, e.Lock) || !strings.ContainsAny(q, "*?[") && matches(q, e.Party.Host, e.Party.App, e.Party.Owner, processOf(e.Party.Host, e.Party.PID))
	})
	_, since := b.poller.said()
	d.Kept, d.Since = kept, p.Clock(since)
	for i := range events {
		d.Rows = append(d.Rows, p.event(&events[i]))
	}
	return d, nil
}

// kinds are the events that a choice of the page stands for.
var kinds = map[string]string{
	"holds": "held acquired granted released", "waits": "waiting gave_up", "lost": "lost", "asked": "asked",
}

// event returns an event as a row.
func (p *pen) event(e *watch.Event) eventRow {
	r := eventRow{ID: rowID(string(e.Type), e.Lock+"\x00"+e.Party.Owner+e.Party.Client+e.Time.String()), At: e.Time.UTC().Format("15:04:05.0"), Type: strings.ReplaceAll(string(e.Type), "_", " "), Bad: e.Type == watch.Lost, Lock: p.Lock(e.Lock), Who: p.Who(&e.Party)}
	r.Text, r.Of = p.story(e)
	if e.Why != "" {
		r.Text = strings.TrimPrefix(r.Text+"; "+e.Why, "; ")
	}
	return r
}

// story says how an event came about, and which other party had a part in it.
func (p *pen) story(e *watch.Event) (text string, of *who) {
	after := func(d time.Duration) string {
		if d < 0 || d == 0 && e.Type != watch.Released {
			return ""
		}
		return "after " + exact(d)
	}
	switch e.Type {
	case watch.Acquired, watch.Granted:
		return p.with(after(e.Waited), "from", e.From)
	case watch.Waiting:
		return p.with("", "for", e.For)
	case watch.Held:
		if e.Held >= 0 {
			return "for " + exact(e.Held) + " already", nil
		}
	case watch.Released, watch.Lost:
		text = after(e.Held)
		if e.Unsure {
			text += ", or lost"
		}
		return text, nil
	case watch.GaveUp:
		return after(e.Waited), nil
	case watch.Asked:
		text = "by " + shown(brief(e.By))
		if e.Reason != "" {
			text += ": " + shown(cut(e.Reason, 200))
		}
		return text, nil
	}
	return "", nil
}

// with adds another party to a text, if it is known.
func (p *pen) with(text, word string, party *watch.Party) (string, *who) {
	if party == nil || !party.Named() && party.Owner == "" && party.Client == "" {
		return text, nil
	}
	w := p.Who(party)
	return strings.TrimSpace(text + " " + word), &w
}
