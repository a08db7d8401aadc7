package browser

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A page of another site can neither release a lock nor show a page in a frame, nor read one under a name of its own.
func TestOtherSites(t *testing.T) {
	s := newSite(t)
	hold, under := s.hold(s.client("api-7", "deploy"), "deploy")
	link := s.url + "release?lock=deploy&owner=" + hold.Owner()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/frame" {
			fmt.Fprintf(w, `<iframe src="%s"></iframe>`, html.EscapeString(s.url))
			return
		}
		fmt.Fprintf(w, `<form method="post" action="%s"><input name="do" value="release"></form><script>document.forms[0].submit()</script>`, html.EscapeString(link))
	}))
	defer evil.Close()
	b := newTab(t, "status of 403", "status of 421", "frame-ancestors", "favicon.ico", "Refused to apply style")
	b.open(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
	b.await(has("Another site has sent this request"))
	if under.Err() != nil {
		t.Fatal("another site has released the lock")
	}
	b.open(evil.URL + "/frame")
	b.await(`document.querySelector('iframe').contentDocument === null`) // an error page, of an origin of its own
	b.open(strings.Replace(s.url, "127.0.0.1", "locks.evil.example", 1))
	b.await(has("This server does not answer to that name"))
	if eval[bool](b, has("deploy")) {
		t.Error("a page under another name shows locks")
	}
}

// Names made of markup, and of 512 odd bytes, are text, and lead to their locks.
func TestHostileNames(t *testing.T) {
	s := newSite(t)
	c := s.client(`<img src=x onerror="window.hit=1">`, `<script>window.hit=1</script>`)
	odd := make([]byte, 512)
	for i := range odd {
		odd[i] = byte(i*7 + 1)
	}
	names := []string{`<script>window.hit=1</script>`, `"><img src=x onerror="window.hit=1">`, string(odd)}
	for _, name := range names {
		s.hold(c, name)
	}
	b := newTab(t)
	for _, page := range []string{"", "clients", "events", "health", "semaphores"} {
		b.open(s.url + page)
		b.await(`document.getElementById('state').textContent === 'Live'`)
		if got := eval[string](b, `[window.hit, document.scripts.length, document.images.length].join(' ')`); got != " 2 0" {
			t.Errorf("%q has run what others have written: %s", page, got)
		}
	}
	for i := range names {
		b.open(s.url + "?sort=name")
		b.await(fmt.Sprintf(`document.querySelectorAll('tbody th a').length >= %d`, len(names)))
		href := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('tbody th a')].map((e) => e.href).find((h) => h === %q)`, s.url+query("lock", "name", names[i])))
		b.open(href)
		b.await(has("held by") + ` && document.querySelector('a.button') !== null && window.hit === undefined`)
		if eval[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("the page of %.20q is wider than the window", names[i])
		}
		b.do(chromedp.Click(chromedp.CSS("td a.button")))
		b.await(`document.querySelector('button.danger') !== null && window.hit === undefined`)
	}
	b.do(chromedp.Click(chromedp.CSS("input[type=checkbox]")), chromedp.Click(chromedp.CSS("button.danger")))
	b.await(has("Nobody holds it."))
	if state, err := c.Inspect(t.Context(), names[2]); err != nil || state.Locked {
		t.Errorf("the lock with 512 odd bytes is %+v, %v", state, err)
	}
}

// Ten thousand locks are a page that reacts at once.
func TestTenThousandLocks(t *testing.T) {
	redis := redistest.Single(t)
	redis.Must(t, "EVAL", `for i = 1, 10000 do redis.call('hset', 'lock:' .. i, string.format('8f1c2b3a-0000-4000-8000-%012d:7', i), 1) end`, "0")
	d, err := connect.Open(t.Context(), "redis://"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	pages := dashboard.New(d, &dashboard.Options{Load: 10_000})
	server := httptest.NewServer(pages)
	t.Cleanup(func() {
		_ = pages.Close() // which ends the streams
		server.Close()
	})
	b := newTab(t)
	b.open(server.URL)
	for _, n := range []string{"[2-9] ", "[4-9] ", "[6-9] ", "[89] ", "10 "} {
		b.await(`/(^|\D)(` + strings.TrimSpace(n) + `|10)\u202f\d\d\d locks/.test(document.body.innerText)`)
	}
	b.await(`document.querySelectorAll('tbody tr').length === 100`)
	start := time.Now()
	b.do(chromedp.Click(chromedp.CSS("input[name=q]")), chromedp.KeyEvent("lock:7777"))
	b.await(`document.querySelectorAll('tbody tr').length === 1`)
	t.Logf("one of ten thousand is found %v after the first key", time.Since(start))
}
