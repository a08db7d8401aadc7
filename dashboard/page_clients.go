package dashboard

import (
	"cmp"
	"html/template"
	"slices"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// clientsPage shows all processes that hold or wait.
var clientsPage = pageKind{path: "clients", title: "Clients", parameters: []string{"q"}, form: "search-form", body: "clients", look: lookClients}

// clientPage shows one of them.
var clientPage = pageKind{path: "client", title: "Client", parameters: []string{"id"}, body: "client", look: lookClient, heading: func(v *view, p *pen) string {
	p.scene.arrange()
	if c := p.scene.known[v.Get("id")]; c != nil {
		return p.Client(&c.ClientInfo).Name
	}
	return p.Who(&watch.Party{Client: v.Get("id")}).Name
}}

// clientsData is what the page of all clients shows.
type clientsData struct {
	Seen          bool
	Rows          []clientRow
	Matching, All int
	Filtered      bool
}

// clientRow is a client in a table.
type clientRow struct {
	ID           string
	Who          who
	Holds, Waits int
	Wait         template.HTML // the longest
	Behind       int           // clients that wait for what it holds
	Version      string
	since        time.Time
}

func lookClients(_ *Dashboard, v *view, p *pen) (any, []string) {
	s := p.scene
	s.arrange()
	d := &clientsData{Seen: s.look != nil, Filtered: v.Get("q") != ""}
	if s.look == nil {
		return d, nil
	}
	d.All = len(s.look.Clients)
	for i := range s.look.Clients {
		c := &s.look.Clients[i]
		if !matches(v.Get("q"), c.Host, c.App, c.ID, processOf(c.Host, c.PID), c.Version) {
			continue
		}
		r := clientRow{ID: rowID("client", c.ID), Who: p.Client(&c.ClientInfo), Version: c.Version}
		// A record is older than the locks: what those show counts, too, as it does for Behind.
		r.Holds = max(c.HoldCount, len(c.Holds), len(s.holds[c.ID]))
		r.Waits = max(c.WaitCount, len(c.Waits), len(s.waits[c.ID]))
		for _, h := range s.holds[c.ID] {
			r.Behind += s.othersWaiting(h.Lock, c.ID)
		}
		for _, w := range c.Waits {
			if r.since.IsZero() || w.Since.Before(r.since) {
				r.since = w.Since
			}
		}
		r.Wait = p.Age(r.since)
		d.Rows = append(d.Rows, r)
	}
	d.Matching = len(d.Rows)
	slices.SortStableFunc(d.Rows, func(a, b clientRow) int {
		return cmp.Or(b.Behind-a.Behind, b.Waits-a.Waits, b.Holds-a.Holds, cmp.Compare(a.Who.Name, b.Who.Name))
	})
	d.Rows = d.Rows[:min(len(d.Rows), mostRows)]
	return d, nil
}

// clientData is what the page of one client shows.
type clientData struct {
	ID      string
	Info    *mortise.ClientInfo // nil if it has no record
	Started string              // its process, by the clock of its machine
	Silent  template.HTML       // for how long
	Extra   []pair
	Way     []chainLink
	Holds   []holdRow
	Waits   []waitRow
	More    int // that its record leaves out
}

type pair struct{ Key, Value string }

// holdRow is a hold of a client.
type holdRow struct {
	Lock  name
	Kind  string
	Since template.HTML
	Lease template.HTML
	Token int64
	Waits int
	Owner string
}

// waitRow is a wait of a client.
type waitRow struct {
	Lock  name
	Kind  string
	Since template.HTML
	By    *who
	ByAge template.HTML
}

func lookClient(_ *Dashboard, v *view, p *pen) (any, []string) {
	id := v.Get("id")
	s := p.scene
	s.arrange()
	d := &clientData{ID: shown(cut(id, 200)), Way: p.WayOfClient(id)}
	if c := s.known[id]; c != nil {
		d.Info, d.Started = &c.ClientInfo, c.Started.UTC().Format(time.DateTime)
		d.More = max(0, c.HoldCount-len(c.Holds)) + max(0, c.WaitCount-len(c.Waits))
		if c.IsSilent() {
			d.Silent = p.Age(c.Now.Add(-c.Silent))
		}
		for key, value := range c.Extra {
			d.Extra = append(d.Extra, pair{shown(brief(key)), shown(cut(value, 200))})
		}
		slices.SortFunc(d.Extra, func(a, b pair) int { return cmp.Compare(a.Key, b.Key) })
	}
	var names []string
	for _, h := range s.holds[id] {
		names = append(names, h.Lock)
		d.Holds = append(d.Holds, holdRow{
			Lock: p.Lock(h.Lock), Kind: kindWord(h.Kind), Since: p.Age(h.Since), Lease: p.Left(s.end(h)), Token: h.Token,
			Waits: s.othersWaiting(h.Lock, id), Owner: shown(brief(h.Party.Owner)),
		})
	}
	for _, w := range s.waits[id] {
		row := waitRow{Lock: p.Lock(w.Lock), Kind: kindWord(w.Kind), Since: p.Age(w.Since)}
		if holds := s.inTheWay(w); len(holds) > 0 {
			by := p.Who(&holds[0].Party)
			row.By, row.ByAge = &by, p.Age(holds[0].Since)
		}
		d.Waits = append(d.Waits, row)
	}
	return d, names
}
