package dashboard_test

import (
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/dashboard"
)

// Requests that no page of the dashboard makes are refused, and say why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	plain, named := newStage(t, nil), newStage(t, &dashboard.Options{Release: true, Hosts: []string{"locks.example.org", "[::1]:8080"}})
	from := func(site string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, test := range map[string]struct {
		s              *stage
		method, target string
		form           string
		with           []func(*http.Request)
		want           int
		text           string
	}{
		"a page":                             {plain, "GET", "/", "", nil, 200, "Locks"},
		"without a body":                     {plain, "HEAD", "/", "", nil, 200, ""},
		"a host of another site":             {plain, "GET", "/", "", []func(*http.Request){over("127.0.0.1:8080"), host("evil.example.org:8080")}, 421, "evil.example.org:8080"},
		"a loopback name":                    {plain, "GET", "/", "", []func(*http.Request){over("127.0.0.1:8080"), host("localhost:8080")}, 200, "Locks"},
		"a loopback address":                 {plain, "GET", "/", "", []func(*http.Request){over("[::1]:8080"), host("[::1]:8080")}, 200, "Locks"},
		"a name on another interface":        {plain, "GET", "/", "", []func(*http.Request){over("192.0.2.1:8080"), host("locks")}, 200, "Locks"},
		"a name that is allowed":             {named, "GET", "/", "", []func(*http.Request){over("127.0.0.1:80"), host("LOCKS.example.org")}, 200, "Locks"},
		"an address that is allowed":         {named, "GET", "/", "", []func(*http.Request){over("[::1]:8080"), host("[::1]:8080")}, 200, "Locks"},
		"a name that is not":                 {named, "GET", "/", "", []func(*http.Request){over("192.0.2.1:80"), host("example.org")}, 421, "Options.Hosts"},
		"no name":                            {named, "GET", "/", "", []func(*http.Request){host("")}, 421, ""},
		"a stream for another host":          {named, "GET", "/", "", []func(*http.Request){host("example.org"), func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }}, 421, ""},
		"a release from another site":        {named, "POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){host("locks.example.org"), from("cross-site")}, 403, "Another site"},
		"a form of another site":             {named, "POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){host("locks.example.org"), from("cross-site"), navigates}, 403, "Another site"},
		"a release from a subdomain":         {named, "POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){host("locks.example.org"), from("same-site")}, 403, "Another site"},
		"a release with another origin":      {named, "POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){host("locks.example.org"), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.org") }}, 403, "Another site"},
		"a release of a read-only dashboard": {plain, "POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){from("same-origin")}, 403, "read-only"},
		"the page of that":                   {plain, "GET", "/release?lock=a&owner=b", "", nil, 403, "read-only"},
		"a release of nothing":               {named, "GET", "/release", "", []func(*http.Request){host("locks.example.org")}, 400, "names no lock"},
		"a form that says nothing":           {named, "POST", "/release?lock=a&owner=b", "x=y", []func(*http.Request){host("locks.example.org")}, 400, "incomplete"},
		"a form that is too large":           {named, "POST", "/release?lock=a&owner=b", "do=release&x=" + strings.Repeat("x", 20000), []func(*http.Request){host("locks.example.org")}, 413, "cannot be read"},
		"a post elsewhere":                   {plain, "POST", "/", "q=x", nil, 405, "POST"},
		"another method":                     {plain, "DELETE", "/lock?name=a", "", nil, 405, "DELETE"},
		"no such page":                       {plain, "GET", "/no/such/page", "", nil, 404, "no such page"},
		"no such asset":                      {plain, "GET", "/assets/style.css", "", nil, 404, ""},
		"a way out of the assets":            {plain, "GET", "/assets/../dashboard.go", "", nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := test.s.do(test.method, test.target, test.form, test.with...)
			if a.code != test.want || !strings.Contains(a.body, test.text) {
				t.Errorf("%s %s answers with %d, want %d and %q: %s", test.method, test.target, a.code, test.want, test.text, a.body)
			}
			if test.method == http.MethodHead && a.body != "" || a.code == http.StatusMethodNotAllowed && a.header.Get("Allow") == "" {
				t.Errorf("the answer has a body, or does not say which methods are allowed")
			}
			a.wantGuards(t)
		})
	}
}

// navigates makes a request one of a link or a form that a user follows.
func navigates(r *http.Request) {
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
}

// wantGuards fails unless the answer says what a page may do.
func (a *answer) wantGuards(t *testing.T) {
	t.Helper()
	for key, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
	} {
		if got := a.header.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// Authorize decides about each page and each action.
func TestAuthorize(t *testing.T) {
	t.Parallel()
	var asked []dashboard.Action
	s := newStage(t, &dashboard.Options{Release: true, Authorize: func(r *http.Request, a dashboard.Action) error {
		asked = append(asked, a)
		if r.Header.Get("X-User") == "" {
			return errors.New("only people of <the team>")
		}
		if a.Verb == dashboard.Release {
			return errors.New("not by force")
		}
		return nil
	}})
	user := func(r *http.Request) { r.Header.Set("X-User", "ada") }
	for _, test := range []struct {
		method, target, form string
		with                 []func(*http.Request)
		want                 int
		text                 string
		action               dashboard.Action
	}{
		{"GET", "/", "", nil, 403, "only people of &lt;the team&gt;", dashboard.Action{Verb: dashboard.View}},
		{"GET", "/", "", []func(*http.Request){func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }}, 403, "only people", dashboard.Action{Verb: dashboard.View}},
		{"GET", "/", "", []func(*http.Request){user}, 200, "Locks", dashboard.Action{Verb: dashboard.View}},
		{"GET", "/release?lock=a&owner=b", "", nil, 403, "only people", dashboard.Action{Verb: dashboard.View, Lock: "a", Owner: "b"}},
		{"POST", "/release?lock=a&owner=b", "do=ask", nil, 403, "only people", dashboard.Action{Verb: dashboard.Ask, Lock: "a", Owner: "b"}},
		{"POST", "/release?lock=a&owner=b", "do=release", []func(*http.Request){user}, 403, "not by force", dashboard.Action{Verb: dashboard.Release, Lock: "a", Owner: "b"}},
	} {
		a := s.do(test.method, test.target, test.form, test.with...)
		if a.code != test.want || !strings.Contains(a.body, test.text) {
			t.Errorf("%s %s answers with %d, want %d and %q", test.method, test.target, a.code, test.want, test.text)
		}
		if last := asked[len(asked)-1]; last != test.action {
			t.Errorf("%s %s asks about %+v, want %+v", test.method, test.target, last, test.action)
		}
	}
}

// Who may not release has no link to it, nor the page of it; who may only ask is offered nothing else.
func TestAuthorizeDecidesWhatIsOffered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Release: true, User: func(r *http.Request) string { return r.Header.Get("X-User") }, Authorize: func(r *http.Request, a dashboard.Action) error {
			if role := r.Header.Get("X-Role"); a.Verb == dashboard.Release && role != "admin" || a.Verb == dashboard.Ask && role == "" {
				return errors.New("you may not " + string(a.Verb))
			}
			return nil
		}})
		s.hold(s.client("api-7"), "deploy")
		s.get("/lock?name=deploy", "held by api-7")
		as := func(role, target string) answer {
			return s.do(http.MethodGet, target, "", func(r *http.Request) { r.Header.Set("X-Role", role) })
		}
		link := "/" + html.UnescapeString(regexp.MustCompile(`release\?[^"]*`).FindString(as("admin", "/lock?name=deploy").body))
		for role, want := range map[string]struct {
			link       bool
			code       int
			ask, force bool
		}{"": {false, 403, false, false}, "asker": {true, 200, true, false}, "admin": {true, 200, true, true}} {
			if page := as(role, "/lock?name=deploy"); strings.Contains(page.body, "Release…") != want.link || strings.Contains(page.body, "read-only") {
				t.Errorf("%q: the page of the lock says %s", role, plain(page.body))
			}
			page := as(role, link)
			if ask, force := strings.Contains(page.body, `value="ask"`), strings.Contains(page.body, `value="release"`); page.code != want.code || ask != want.ask || force != want.force {
				t.Errorf("%q: the page of the release answers with %d, offers to ask %v, by force %v", role, page.code, ask, force)
			}
		}
	})
}

// What another site has sent is in the log as what it was.
func TestOtherSitesInTheLog(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := newStage(t, &dashboard.Options{Release: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, do := range []string{"ask", "release"} {
		s.do(http.MethodPost, "/release?lock=deploy&owner=b:1", "do="+do, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		if want := "action=" + do + " lock=deploy owner=b:1"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
	}
}

// A dashboard works at any path, as its URLs are relative.
func TestMounted(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.hold(s.client("api-7"), "deploy")
	mux := http.NewServeMux()
	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", s.pages))
	server := httptest.NewServer(mux)
	defer server.Close()
	fetch := func(path string) *http.Response {
		t.Helper()
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response
	}
	for _, path := range []string{"/admin/locks", "/admin/locks/", "/admin/locks/clients", "/admin/locks/lock?name=deploy"} {
		if r := fetch(path); r.StatusCode != http.StatusOK {
			t.Errorf("%s answers with %s", path, r.Status)
		}
	}
	body := s.get("/", "deploy").body
	for _, attribute := range []string{`href="/`, `src="/`, `action="/`, `href="http`, `src="http`} {
		if strings.Contains(body, attribute) {
			t.Errorf("the page has %s", attribute)
		}
	}
	for _, one := range strings.Split(body, `="assets/`)[1:] {
		name, _, _ := strings.Cut(one, `"`)
		r := fetch("/admin/locks/assets/" + name)
		if r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || r.Header.Get("Content-Type") == "" {
			t.Errorf("%s answers with %s, %v", name, r.Status, r.Header)
		}
	}
	bare := httptest.NewServer(http.StripPrefix("/x", s.pages)) // without a mux, which would redirect
	defer bare.Close()
	response, err := bare.Client().Get(bare.URL + "/x?q=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Request.URL.Path != "/x/" {
		t.Errorf("without a slash at the end it leads to %s, %s", response.Request.URL, response.Status)
	}
}
