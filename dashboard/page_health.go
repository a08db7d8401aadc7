package dashboard

import (
	"html/template"
	"slices"
	"strconv"
	"time"
)

// healthPage shows what looking costs, what cannot be seen, and which clients there are.
var healthPage = pageKind{path: "health", title: "Health", body: "health", look: lookHealth}

// healthData is what the page shows.
type healthData struct {
	Seen     bool
	Facts    []pair
	Silent   []silentRow
	Versions []pair
	Notes    []noteRow
	Findings *findings
}

type silentRow struct {
	Who   who
	Since template.HTML
	Holds int
}

type noteRow struct{ At, Text string }

func lookHealth(b *Dashboard, _ *view, p *pen) (any, []string) {
	d := &healthData{Seen: p.scene.look != nil}
	l := b.poller.state()
	if l.Looks > 0 {
		d.Facts = append(d.Facts, pair{"looks every", exact(l.Every.Round(100 * time.Millisecond))})
	}
	d.Facts = append(d.Facts, pair{"the load is bounded to", strconv.Itoa(l.Bound) + " commands a second"},
		pair{"it may miss holds and waits shorter than", exact(l.Unseen().Round(100 * time.Millisecond))})
	if s := l.Search; s != nil {
		text := "not complete yet"
		if s.Passes > 0 {
			text = exact(s.Took.Round(100*time.Millisecond)) + " for about " + counted(int(s.Keys), "key")
		}
		if s.Err != nil {
			text = "has failed: " + s.Err.Error()
		}
		d.Facts = append(d.Facts, pair{"a search for locks that no record tells of takes", text})
	}
	d.Facts = append(d.Facts, pair{"looks that have failed", strconv.Itoa(l.Failures)})
	d.clients(p)
	notes, _ := b.poller.said()
	for i := range notes {
		d.Notes = append(d.Notes, noteRow{p.Clock(notes[i].At), notes[i].String()})
	}
	d.Findings = b.findings(p)
	return d, nil
}

// clients adds which clients are silent, and their versions.
func (d *healthData) clients(p *pen) {
	if p.scene.look == nil {
		return
	}
	versions := make(map[string]int)
	for i := range p.scene.look.Clients {
		c := &p.scene.look.Clients[i]
		version := "not known"
		if c.Mortise != "" {
			version = shown(brief(c.Mortise))
		}
		versions[version]++
		if c.IsSilent() {
			d.Silent = append(d.Silent, silentRow{p.Client(&c.ClientInfo), p.Age(c.Now.Add(-c.Silent)), c.HoldCount})
		}
	}
	for version, n := range versions {
		d.Versions = append(d.Versions, pair{version, counted(n, "client")})
	}
	slices.SortFunc(d.Versions, func(a, b pair) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
}
