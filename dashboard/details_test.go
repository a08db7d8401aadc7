package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A page of another site may lead here; it loads nothing, and costs nothing.
func TestOtherSitesLoadNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends what would be a stream
		defer cancel()
		with := func(headers ...string) func(*http.Request) {
			return func(r *http.Request) {
				*r = *r.WithContext(ctx)
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
			}
		}
		for name, test := range map[string]struct {
			with func(*http.Request)
			want int
		}{
			"a picture of another site":       {with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"), 403},
			"only the site":                   {with("Sec-Fetch-Site", "cross-site"), 403},
			"a picture of a subdomain":        {with("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"), 403},
			"a frame":                         {with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), 403},
			"a page loaded in advance":        {with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Purpose", "prefetch"), 403},
			"a stream":                        {with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Accept", "text/event-stream"), 403},
			"a stream that says it navigates": {with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Accept", "text/event-stream"), 403},
			"a stream of an old browser":      {with("Origin", "https://evil.example.org", "Accept", "text/event-stream"), 403},
		} {
			if a := s.do(http.MethodGet, "/lock?name=deploy", "", test.with); a.code != test.want || !strings.Contains(a.body, "Another site") {
				t.Errorf("%s gets %d, want %d", name, a.code, test.want)
			}
		}
		if n := s.sent.n.Load(); n != 0 {
			t.Errorf("what was refused has cost %d commands", n)
		}
		for name, with := range map[string]func(*http.Request){
			"a link":       with("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"),
			"a bookmark":   with("Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"),
			"its own page": with("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"),
			"no browser":   with(),
		} {
			if a := s.do(http.MethodGet, "/lock?name=deploy", "", with); a.code != http.StatusOK {
				t.Errorf("%s gets %d", name, a.code)
			}
		}
	})
}

// The close looks of many pages take none from the next one, and none from a stream.
func TestCloseLooksOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Load: 100_000})
		for _, name := range []string{"first", "last"} {
			s.hold(s.client("api-7"), name)
		}
		events, end := s.follow("/lock?name=first")
		defer end()
		until(t, events, "page", "held by", "api-7")
		for i := range 450 {
			if a := s.do(http.MethodGet, fmt.Sprintf("/lock?name=flood%d", i), ""); strings.Contains(a.body, "cannot be read closely") {
				t.Fatalf("page %d cannot be read closely: %s", i, plain(a.body))
			}
		}
		if got := plain(s.do(http.MethodGet, "/lock?name=last", "").body); !strings.Contains(got, "held by") || strings.Contains(got, "cannot be read") {
			t.Errorf("a lock that is held is shown as: %s", got)
		}
		for len(events) > 0 {
			if e := <-events; strings.Contains(plain(e.data), "cannot be read closely") {
				t.Errorf("a stream has lost its close look: %s", plain(e.data))
			}
		}
	})
}

// deafTo is a driver that fails for the keys of one lock.
type deafTo struct {
	driver.Driver
	name string
}

func (d *deafTo) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if d.fails(&call) {
		return driver.Value{}, driver.ReplyError(errorOf("the disk is full"), "ERR the disk is full")
	}
	return d.Driver.Eval(ctx, call)
}

func (d *deafTo) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.Batch(ctx, calls)
	for i := range calls {
		if d.fails(&calls[i]) {
			results[i] = driver.Result{Err: driver.ReplyError(errorOf("the disk is full"), "ERR the disk is full")}
		}
	}
	return results
}

func (d *deafTo) fails(call *driver.Call) bool {
	return slices.ContainsFunc(call.Keys, func(key string) bool { return strings.Contains(key, d.name) })
}

// A lock that cannot be read is not said to be free.
func TestUnreadIsNotFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stage{t: t, server: memredis.New()}
		defer s.server.Close()
		s.pages = dashboard.New(&deafTo{s.server.Driver(), "deploy"}, &dashboard.Options{Release: true})
		defer func() { _ = s.pages.Close() }()
		for target, want := range map[string]string{
			"/lock?name=deploy":            "Whether somebody holds it is not known.",
			"/lock":                        "Whether somebody holds it is not known.",
			"/release?lock=deploy&owner=x": "Whether this holder still holds it is not known",
			"/lock?name=other":             "Nobody holds it.",
			"/release?lock=other&owner=x":  "This holder does not hold the lock any more.",
		} {
			got := plain(s.do(http.MethodGet, target, "").body)
			if !strings.Contains(got, want) {
				t.Errorf("%s does not say %q: %s", target, want, got)
			}
		}
	})
}

// An address has no more text than the name of a lock may have: a page that is followed would keep it.
func TestLongAddresses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Release: true})
		long, most := strings.Repeat("\x01", 513), strings.Repeat("\x01", 512)
		stream := func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
			r.Header.Set("Accept", "text/event-stream")
		}
		for _, target := range []string{
			query("/lock", "name", long), query("/", "q", long), query("/events", "q", long), query("/client", "id", long), query("/", "other", long), query("/", long, ""),
			query("/release", "lock", long, "owner", "x"), query("/release", "lock", "x", "owner", strings.Repeat("x", 4097)),
			"/lock?name=a" + strings.Repeat("&x=", 8000), "/?q=" + strings.Repeat("a", 300) + "&q=" + strings.Repeat("b", 300),
		} {
			for _, with := range [][]func(*http.Request){nil, {stream}} {
				if a := s.do(http.MethodGet, target, "", with...); a.code != http.StatusBadRequest || !strings.Contains(a.body, "are allowed") || len(a.body) > 8000 {
					t.Errorf("%.40q gets %d: %.300q", target, a.code, plain(a.body))
				}
			}
		}
		for _, target := range []string{query("/lock", "name", most), query("/", "q", most), query("/release", "lock", most, "owner", strings.Repeat("x", 4096))} {
			if a := s.do(http.MethodGet, target, ""); a.code != http.StatusOK {
				t.Errorf("%.40q gets %d: %.200q", target, a.code, plain(a.body))
			}
		}
	})
}
