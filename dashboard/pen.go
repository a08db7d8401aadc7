package dashboard

import (
	"hash/fnv"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// pen writes what pages have in common.
type pen struct {
	scene *scene
	now   time.Time // by Redis' clock
	// live leaves out what changes by itself with time, so that what stays the same is the same text. The script of
	// the page writes it.
	live bool
}

// Age writes for how long something has lasted; nothing if that is not known.
func (p *pen) Age(since time.Time) template.HTML {
	if since.IsZero() {
		return ""
	}
	return p.ticking("data-since", since, span(max(0, p.now.Sub(since))))
}

// Left writes for how long a lease lasts unless it is renewed; a dash if that is not known.
func (p *pen) Left(until time.Time) template.HTML {
	if until.IsZero() {
		return `<span class="faint">–</span>`
	}
	return p.ticking("data-until", until, span(max(0, until.Sub(p.now))))
}

func (p *pen) ticking(attribute string, at time.Time, text string) template.HTML {
	if p.live {
		text = ""
	}
	return template.HTML(`<span class="tick" ` + attribute + `="` + strconv.FormatInt(at.UnixMilli(), 10) + `">` + template.HTMLEscapeString(text) + `</span>`)
}

// who is a party as pages show it.
type who struct {
	Name string
	App  string
	Href string // of the page of its client
	Note string // what else is to be known
	Odd  bool   // it is silent, or kept
}

// Who describes a party.
func (p *pen) Who(party *watch.Party) who {
	party = p.scene.named(party)
	w := who{App: appOf(party)}
	switch {
	case party.Kept():
		return who{Name: "kept", Note: "released before the time of its MinHold", Odd: true}
	case party.Named():
		w.Name = processOf(party.Host, party.PID)
	case clientOf(party) == "":
		w.Name = "unknown"
	default:
		w.Name, w.Note = shortID(party), origin(clientOf(party))
	}
	if id := clientOf(party); id != "" {
		w.Href = href("client", "id", id)
		p.scene.arrange()
		if c := p.scene.known[id]; c != nil && c.IsSilent() {
			w.Note, w.Odd = "silent", true
		}
	}
	return w
}

// Client describes a client.
func (p *pen) Client(c *mortise.ClientInfo) who {
	return p.Who(&watch.Party{Client: c.ID, Host: c.Host, PID: c.PID, App: c.App, Command: c.Command()})
}

// shortID returns what is enough of the id of a party to tell it from others on a page.
func shortID(p *watch.Party) string {
	id := p.Owner
	if id == "" {
		id = p.Client
	}
	if client, _, _ := strings.Cut(id, ":"); len(client) == 36 && client[8] == '-' {
		return shown(client[:8]) + "…"
	}
	return shown(brief(id))
}

func processOf(host string, pid int) string {
	return shown(brief(host)) + " pid " + strconv.Itoa(pid)
}

// appOf returns the program of a party, and the one behind mortise run.
func appOf(p *watch.Party) string {
	var names []string
	for _, name := range []string{p.App, p.Command} {
		if name != "" {
			names = append(names, shown(brief(name)))
		}
	}
	return strings.Join(names, ": ")
}

// origin says whose client has a UUID that no record names.
func origin(id string) string {
	switch {
	case len(id) != 36:
		return ""
	case id[14] == '4':
		return "Redisson"
	case id[14] == '8':
		return "does not tell its process"
	}
	return ""
}

// name is the name of a lock as pages show it.
type name struct {
	Text string
	Href string
}

// Lock describes a lock.
func (p *pen) Lock(lock string) name { return name{shown(brief(lock)), href("lock", "name", lock)} }

// href returns a relative URL with parameters, which are pairs of a name and a value. Empty values are left out.
func href(page string, parameters ...string) string {
	q := make(url.Values)
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			q.Set(parameters[i], parameters[i+1])
		}
	}
	if page == "" {
		page = "./"
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

// Clock writes an instant, in UTC.
func (p *pen) Clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	layout := "15:04:05"
	if t.UTC().Format(time.DateOnly) != p.now.UTC().Format(time.DateOnly) {
		layout = "2006-01-02 15:04:05"
	}
	return t.UTC().Format(layout)
}

// chainLink is one step of who is in the way of whom.
type chainLink struct {
	Who   who
	Lock  name
	Since template.HTML
	Again bool // it is in the chain already
}

// WayOf returns who is in the way of a hold, up to the one that waits for nobody.
func (p *pen) WayOf(h *watch.Hold) []chainLink {
	p.scene.arrange()
	w := p.scene.blockedIn(h)
	if w == nil {
		return nil
	}
	return p.way(w, h)
}

// WayOfClient returns who is in the way of the oldest wait of a client.
func (p *pen) WayOfClient(id string) []chainLink {
	p.scene.arrange()
	for _, w := range slices.SortedStableFunc(slices.Values(p.scene.waits[id]), func(a, b *watch.Wait) int { return a.Since.Compare(b.Since) }) {
		if chain := p.way(w, nil); chain != nil {
			return chain
		}
	}
	return nil
}

func (p *pen) way(w *watch.Wait, under *watch.Hold) (chain []chainLink) {
	seen := map[*watch.Hold]bool{under: true}
	for _, h := range p.scene.way(w, under) {
		chain = append(chain, chainLink{p.Who(&h.Party), p.Lock(h.Lock), p.Age(h.Since), seen[h]})
		seen[h] = true
	}
	return chain
}

// matches reports whether one of some texts contains a search, whatever the case. A search with * or ? is a pattern for
// the first one of them, as in Redis.
func matches(search string, texts ...string) bool {
	if search == "" {
		return true
	}
	if strings.ContainsAny(search, "*?[") {
		return watch.Match(search, texts[0])
	}
	search = strings.ToLower(search)
	for _, text := range texts {
		if strings.Contains(strings.ToLower(text), search) {
			return true
		}
	}
	return false
}

// rowID returns the id of a row, so that a browser recognizes it when it moves.
func rowID(what, key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return what + "-" + strconv.FormatUint(h.Sum64(), 36)
}
