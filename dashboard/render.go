package dashboard

import (
	"bytes"
	"embed"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"asset": func(file string) string { return assetURLs[file] }, "kind": kindWord, "counted": counted, "grouped": grouped, "exact": exact, "shown": shown,
	"brief": brief, "span": span,
}).ParseFS(templateFiles, "templates/*.html"))

// pageKind is one kind of page.
type pageKind struct {
	path       string
	title      string
	parameters []string // of the URL, which tell its pages apart
	form       string   // the template of the filter, which is not live; empty if there is none
	lead       string   // the template of what is live above the filter; empty if there is none
	body       string   // that of what is live below
	// look returns the data of the body, and the names of locks that it shows. It is called at most once for all
	// browsers with the same parameters and the same scene.
	look func(b *Dashboard, v *view, p *pen) (data any, names []string)
	// heading returns what stands above the page, if it is not the title.
	heading func(v *view, p *pen) string
}

// pages are the kinds of pages by their paths. Init makes it, because what they show leads to them.
var pages map[string]*pageKind

// navigation are the pages that stand on each page.
var navigation []*pageKind

func init() {
	navigation = []*pageKind{&locksPage, &clientsPage, &countsPage, &eventsPage, &healthPage}
	pages = make(map[string]*pageKind)
	for _, p := range append(navigation, &lockPage, &clientPage) {
		pages[p.path] = p
	}
}

// view is what a browser looks at.
type view struct {
	page   *pageKind
	values url.Values // only those parameters that the page has
	paused bool
	// releases reports whether the browser may release the lock of an owner, or ask for that.
	releases func(lock, owner string) bool
	own      bool // what the browser may do is its own: others see another page
}

// parseView returns what a URL says.
func parseView(p *pageKind, q url.Values) *view {
	v := &view{page: p, values: make(url.Values), paused: q.Get("paused") != ""}
	for _, key := range p.parameters {
		if value := q.Get(key); value != "" {
			v.values.Set(key, value)
		}
	}
	return v
}

// Get returns a parameter.
func (v *view) Get(key string) string { return v.values.Get(key) }

// key distinguishes views.
func (v *view) key() string { return v.page.path + "?" + v.values.Encode() }

// url returns the relative URL of the view.
func (v *view) url(paused bool) string {
	q := v.values.Encode()
	if paused {
		q = strings.TrimPrefix(q+"&paused=1", "&")
	}
	switch {
	case q == "" && v.page.path == "":
		return "./"
	case q == "":
		return v.page.path
	case v.page.path == "":
		return "./?" + q
	}
	return v.page.path + "?" + q
}

// rendered is what is live of a page.
type rendered struct {
	once              sync.Once
	alert, lead, body []byte
	sum               uint64 // of all three
}

// mostCached is how many views of one scene are kept.
const mostCached = 200

// render returns what is live of a page: once for all browsers that look at the same. With live, what changes by itself
// with time is left to the script.
func (b *Dashboard) render(s *scene, v *view, live bool) *rendered {
	key := strconv.FormatBool(live) + v.key()
	s.mu.Lock()
	r := s.cache[key]
	if r == nil || v.own {
		r = new(rendered)
		if len(s.cache) < mostCached && !v.own {
			s.cache[key] = r
		}
	}
	s.mu.Unlock()
	r.once.Do(func() {
		p := &pen{scene: s, now: b.poller.clock(), live: live}
		data, names := v.page.look(b, v, p)
		b.poller.show(v.key(), names)
		r.alert = b.execute("alert", alertOf(b, p))
		if v.page.lead != "" {
			r.lead = region("lead", b.execute(v.page.lead, data))
		}
		r.body = region("live", b.execute(v.page.body, data))
		h := fnv.New64a()
		for _, part := range [][]byte{r.alert, r.lead, r.body} {
			_, _ = h.Write(part) // never fails
		}
		r.sum = h.Sum64()
	})
	return r
}

// execute returns what a template writes.
func (b *Dashboard) execute(name string, data any) []byte {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		b.options.Logger.Error("mortise: dashboard: a page cannot be written", "part", name, "error", err.Error())
		return []byte("<p>This part of the page cannot be written: " + template.HTMLEscapeString(err.Error()) + "</p>")
	}
	return out.Bytes()
}

// region returns a part of a page that is replaced when it changes.
func region(id string, html []byte) []byte {
	return slices.Concat([]byte(`<div id="`+id+`">`), html, []byte("</div>\n"))
}

// frame is a whole page.
type frame struct {
	Site, Title, Heading string
	Base                 string // leads from a path with more elements to the pages
	Nav                  []navItem
	Now                  int64
	Live, Paused         bool
	Toggle               string // the URL with or without a pause
	Form                 string
	View                 *view
	Alert, Lead, Body    template.HTML
	Foot                 foot
}

type navItem struct {
	Title, Href string
	Current     bool
}

// frameOf returns a page around a body.
func (b *Dashboard) frameOf(title string, current *pageKind) *frame {
	f := &frame{Site: b.options.Title, Title: title, Heading: title, Now: b.poller.clock().UnixMilli(), Foot: b.foot()}
	for _, p := range navigation {
		f.Nav = append(f.Nav, navItem{p.title, href(p.path), p == current})
	}
	return f
}

// write writes a whole page.
func (b *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, "layout", f); err != nil {
		b.options.Logger.Error("mortise: dashboard: a page cannot be written", "page", r.URL.Path, "error", err.Error())
		http.Error(w, "The page cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(out.Bytes()) // a browser that has gone needs no answer
	}
}

// serve serves a page, or the stream of its changes.
func (b *Dashboard) serve(w http.ResponseWriter, r *http.Request, p *pageKind) {
	if !b.allowed(w, r, Action{Verb: View}) {
		return
	}
	v := parseView(p, r.URL.Query())
	v.own = b.options.Release && b.options.Authorize != nil && p == pages[lockPage.path]
	v.releases = func(lock, owner string) bool {
		return b.may(r, Action{Ask, lock, owner}) || b.may(r, Action{Release, lock, owner})
	}
	w.Header().Set("Vary", "Accept")
	if isStream(r) {
		b.stream(w, r, v)
		return
	}
	s := b.poller.current(r.Context())
	f := b.frameOf(p.title, p)
	if p.heading != nil {
		f.Heading = p.heading(v, &pen{scene: s, now: b.poller.clock()})
		f.Title = f.Heading
	}
	f.View, f.Form, f.Live, f.Paused, f.Toggle = v, p.form, true, v.paused, v.url(!v.paused)
	page := b.render(s, v, false)
	f.Alert, f.Lead, f.Body = template.HTML(page.alert), template.HTML(page.lead), template.HTML(page.body) // by templates
	status := http.StatusOK
	if s.look == nil {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "5")
	}
	b.write(w, r, status, f)
}

// fail answers with a page that says what is wrong.
func (b *Dashboard) fail(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	f := b.frameOf(title, nil)
	f.Base = strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.Path, "/"), "/"))
	f.Body = template.HTML(b.execute("failure", text)) // by a template
	b.write(w, r, status, f)
}

// foot is the bottom of each page: what looking costs.
type foot struct {
	PerSecond, Bound int
	At               string
	Age              string
	Looks            bool
}

func (b *Dashboard) foot() foot {
	l := b.poller.state()
	f := foot{PerSecond: int(l.PerSecond + 0.5), Bound: l.Bound, Looks: l.Looks > 0}
	if f.Looks {
		f.At = l.At.Add(time.Since(l.Looked)).UTC().Format("15:04:05") + " UTC"
		f.Age = exact(time.Since(l.Looked).Truncate(100 * time.Millisecond))
	}
	return f
}
