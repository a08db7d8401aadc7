package browser

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/fleet"
	"github.com/mortise-go/mortise/memredis"
)

var screens = flag.Bool("screens", false, "write the pictures of the documents")

// chromium is the browser of all tests.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		fmt.Fprintln(os.Stderr, "There is no Chromium; scripts/need.sh chromium installs it.")
		return 1
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program), chromedp.WindowSize(1440, 900)}
	for name, value := range map[string]any{
		"headless": true, "no-sandbox": true, "disable-gpu": true, "disable-quic": true, "no-first-run": true, "disable-background-networking": true,
		"disable-component-update": true, "disable-sync": true, "hide-scrollbars": true, "font-render-hinting": "none", "disable-dev-shm-usage": true,
		"host-resolver-rules": "MAP locks.evil.example 127.0.0.1",
	} {
		options = append(options, chromedp.Flag(name, value))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var cancel context.CancelFunc
	chromium, cancel = chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(chromium, chromedp.Navigate("about:blank")); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex // guards said
	said []string   // errors that the browser has told of
}

// newTab opens a tab. Whatever the browser complains about on its pages fails the test, but for what is expected.
func newTab(t *testing.T, expected ...string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // so that a browser that hangs is told; each event has its own limit
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
	next:
		for _, text := range b.said {
			for _, e := range expected {
				if strings.Contains(text, e) {
					continue next
				}
			}
			t.Errorf("the browser says: %s", text)
		}
	})
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // tabs are in each other's background
	b.media("light", 1440)
	return b
}

func (b *tab) listen(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			b.said = append(b.said, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, fmt.Sprintf("%+v", *e.ExceptionDetails))
	}
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command to the browser.
func call[P, R any](b *tab, c cdp.Command[P, R], p P) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, p)
		return err
	}))
}

// media makes the browser prefer a colour scheme, with a window of some width.
func (b *tab) media(scheme string, width int64) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(width, 900))
}

// scripts allows or forbids scripts.
func (b *tab) scripts(allowed bool) {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed})
}

// open opens a page.
func (b *tab) open(url string) {
	b.t.Helper()
	call(b, page.BringToFront, cdp.Empty{}) // keys are for the tab in front
	b.do(chromedp.Navigate(url))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until an expression in the page is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.poll(func() bool {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)) // may fail while another page is loaded
		return err == nil && v
	}, func() string {
		return fmt.Sprintf("still not so: %s; the page says: %s", expression, eval[string](b, "document.body.innerText"))
	})
}

// poll waits until the page is as wanted, for a minute at most. It is asked again and again: it may be another one
// by then.
func (b *tab) poll(wanted func() bool, missing func() string) {
	b.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.After(time.Minute); !wanted(); {
		select {
		case <-again.C:
		case <-end:
			b.t.Fatal(missing())
		}
	}
}

// has is an expression: the page has a text.
func has(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// site is a dashboard on an embedded Redis, at a path of a server.
type site struct {
	t     *testing.T
	redis *memredis.Server
	pages *dashboard.Dashboard
	url   string // with a slash at the end
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, redis: memredis.New()}
	s.pages = dashboard.New(s.redis.Driver(), &dashboard.Options{Title: "mortise demo", Release: true})
	mux := http.NewServeMux()
	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", s.pages))
	server := httptest.NewServer(mux)
	s.url = server.URL + "/admin/locks/"
	t.Cleanup(func() {
		_ = s.pages.Close() // which ends the streams
		server.Close()
		s.redis.Close()
	})
	return s
}

// client returns a client on a host.
func (s *site) client(host, app string) *mortise.Client {
	c := mortise.New(s.redis.Driver(), &mortise.Options{AllowAnyName: true, Identity: mortise.Identity{Host: host, App: app}})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// hold acquires a lock, which is held until the client is closed.
func (s *site) hold(c *mortise.Client, name string) (*mortise.Hold, context.Context) {
	s.t.Helper()
	hold, ctx, err := c.Lock(name).Lock(context.WithoutCancel(s.t.Context()))
	if err != nil {
		s.t.Fatal(err)
	}
	return hold, ctx
}

// wait waits for a lock, and holds it, until the test ends.
func (s *site) wait(ctx context.Context, c *mortise.Client, name string) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if hold, _, err := c.Lock(name).Lock(ctx); err == nil {
			<-ctx.Done()
			_ = hold.Unlock()
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// lively starts a fleet, and brings scenes about.
func (s *site) lively(scenes ...fleet.Scene) {
	s.t.Helper()
	f, err := fleet.Start(context.WithoutCancel(s.t.Context()), func(context.Context) (driver.Driver, error) { return s.redis.Driver(), nil }, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(f.Stop)
	for _, scene := range scenes {
		if err := f.Scene(s.t.Context(), scene); err != nil {
			s.t.Fatal(err)
		}
	}
}
