package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// Options are the options of a [Dashboard]. The zero value of each field is its default.
type Options struct {
	// Title stands on top of each page, to tell environments apart. Default: mortise.
	Title string
	// Prefix is that of the clients to watch: see mortise.Options.Prefix. Default: none.
	Prefix string
	// Load is how many commands a second the pages cost Redis at most, on average, however many browsers look;
	// see watch.Options. Default 100. Releases are not counted.
	Load int

	// Release allows browsers to ask holders to release a lock, and to release it by force. Default: the dashboard
	// is read-only, and refuses both.
	Release bool
	// Authorize, if not nil, is asked before each request for a page, before each action again, and about the
	// actions that a page would offer, which has no links to those that it refuses. It returns nil to allow it;
	// otherwise the browser gets the status 403 with the text of the error, and never 401, which would make it ask
	// for a password: a login is the business of the handler around the dashboard. It is called in the goroutine
	// of the request, often while a page is followed, and must be safe for concurrent use.
	Authorize func(*http.Request, Action) error
	// User, if not nil, returns the name of the user of a request, for the log and for the holders that are asked;
	// empty if it is not known. Default: the name of HTTP Basic, whose password it is up to others to check.
	User func(*http.Request) string
	// Hosts are the values of the header Host that are accepted, without ports. Others get the status 421: a page of
	// another site, whose name was made to lead here, would have its own. Default: any, except over a connection to a
	// loopback address; there only the names of the loopback interface.
	Hosts []string

	// Mortise is how a command line begins that runs mortise for the Redis of this dashboard, as in
	// "mortise --redis redis://redis:6379", and RedisCLI returns how one begins that runs redis-cli for a server
	// with that address, which is empty for any server; doctor.Options has the same. Pages show commands that begin
	// so, to everybody who may look: they must have no password. Default: the names of the two programs; pages say
	// that an address is to be added.
	Mortise  string
	RedisCLI func(server string) string

	// Logger gets a line for each release, and for each one that was refused. Default: none.
	Logger *slog.Logger

	_ struct{}
}

// Action is what a browser wants: see [Options.Authorize].
type Action struct {
	Verb  Verb
	Lock  string // of Ask and Release
	Owner string // of Ask and Release: the holder that loses the lock
}

// Verb says what an [Action] does.
type Verb string

// The verbs.
const (
	View    Verb = "view"    // look at a page
	Ask     Verb = "ask"     // ask the holder to release its lock
	Release Verb = "release" // release the lock of a holder that is not asked
)

// Dashboard serves the pages. It is safe for concurrent use.
type Dashboard struct {
	options Options
	driver  driver.Driver
	poller  *poller
	errands *mortise.Client
	handler http.Handler

	examiner examiner
	refusals refusals
}

// New returns a Dashboard that uses d and takes ownership of it. It does no I/O: the first request begins to look at
// Redis. Nil options mean the defaults.
func New(d driver.Driver, options *Options) *Dashboard {
	b := &Dashboard{driver: d}
	if options != nil {
		b.options = *options
		b.options.Hosts = slices.Clone(options.Hosts)
	}
	o := &b.options
	if o.Title == "" {
		o.Title = "mortise"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b.poller = newPoller(d, o)
	b.errands = mortise.New(lent{d}, &mortise.Options{Prefix: o.Prefix, AllowAnyName: true, RetryFor: errandsRetry, Identity: mortise.Identity{App: "dashboard"}})
	b.handler = b.guarded(http.HandlerFunc(b.route))
	return b
}

// Close ends the poller and all streams to browsers, and closes the driver. It returns when the poller has ended. Pages
// that are requested later get the status 503.
func (b *Dashboard) Close() error {
	b.poller.close()
	b.examiner.end()
	_ = b.errands.Close() // it holds nothing
	return b.driver.Close()
}

// ServeHTTP implements http.Handler.
func (b *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) }

// route serves what the path of a request names.
func (b *Dashboard) route(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	switch p := pages[path]; {
	case r.URL.Path == "" && lastOf(r.RequestURI) != "": // mounted without a slash at the end: relative URLs need it
		w.Header().Set("Location", "./"+lastOf(r.RequestURI)+"/") // the dot because of colons
		w.WriteHeader(http.StatusMovedPermanently)
	case strings.HasPrefix(path, assetsPath):
		serveAsset(w, r, strings.TrimPrefix(path, assetsPath))
	case b.poller.closed():
		b.fail(w, r, http.StatusServiceUnavailable, "The dashboard is closed", "The program around it has closed it, or is about to end.")
	case path == releasePath:
		b.release(w, r)
	case p != nil:
		b.serve(w, r, p)
	default:
		b.fail(w, r, http.StatusNotFound, "There is no such page", "The address leads nowhere. The links above lead to all pages.")
	}
}

// lastOf returns the last element of the path of a request, for a relative redirect. The URI may be absolute, and without
// a path.
func lastOf(uri string) string {
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return ""
	}
	path := u.EscapedPath()
	return path[strings.LastIndex(path, "/")+1:]
}

// allowed asks Authorize about an action, and answers the request if it is not allowed.
func (b *Dashboard) allowed(w http.ResponseWriter, r *http.Request, a Action) bool {
	if b.options.Authorize == nil {
		return true
	}
	err := b.options.Authorize(r, a)
	if err == nil {
		return true
	}
	if a.Verb != View {
		b.log(r, "refused", a, err)
	}
	b.fail(w, r, http.StatusForbidden, "That is not allowed", err.Error())
	return false
}

// may reports whether a browser may do something, of which a page would have a link.
func (b *Dashboard) may(r *http.Request, a Action) bool {
	return b.options.Release && (b.options.Authorize == nil || b.options.Authorize(r, a) == nil)
}

// user returns the name of the user of a request, as far as it is known.
func (b *Dashboard) user(r *http.Request) string {
	if b.options.User != nil {
		return b.options.User(r)
	}
	name, _, _ := r.BasicAuth()
	return name
}

// log writes a line about an action.
func (b *Dashboard) log(r *http.Request, what string, a Action, err error) {
	attributes := []slog.Attr{
		slog.String("action", string(a.Verb)), slog.String("lock", a.Lock), slog.String("owner", a.Owner), slog.String("remote", r.RemoteAddr),
	}
	if user := b.user(r); user != "" {
		attributes = append(attributes, slog.String("user", user))
	}
	if err != nil {
		attributes = append(attributes, slog.String("error", err.Error()))
	}
	if what == refused {
		left, ok := b.refusals.next()
		if !ok {
			return
		}
		if left > 0 {
			attributes = append(attributes, slog.Int("left out before", left))
		}
	}
	b.options.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelWarn, "mortise: dashboard: "+what, bounded(attributes)...)
}
