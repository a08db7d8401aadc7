package dashboard_test

import (
	"bufio"
	"context"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/leaks"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// stage is a dashboard on an embedded Redis, and clients on that.
type stage struct {
	t      *testing.T
	server *memredis.Server
	pages  *dashboard.Dashboard
	sent   *counter
}

// counter counts the commands of a driver.
type counter struct {
	driver.Driver
	n atomic.Int64
}

func (c *counter) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	c.n.Add(1)
	return c.Driver.Eval(ctx, call)
}

func (c *counter) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	c.n.Add(int64(len(calls)))
	return c.Driver.Batch(ctx, calls)
}

func newStage(t *testing.T, o *dashboard.Options) *stage {
	t.Helper()
	s := &stage{t: t, server: memredis.New()}
	s.sent = &counter{Driver: s.server.Driver()}
	s.pages = dashboard.New(s.sent, o)
	t.Cleanup(func() {
		if err := s.pages.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.server.Close()
	})
	return s
}

// client returns a client on a host.
func (s *stage) client(host string) *mortise.Client {
	return s.process(mortise.Identity{Host: host, App: "deploy", Version: "v1.2.3"})
}

// process returns a client of a process.
func (s *stage) process(who mortise.Identity) *mortise.Client {
	c := mortise.New(s.server.Driver(), &mortise.Options{History: 10, AllowAnyName: true, Identity: who})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// hold acquires a lock.
func (s *stage) hold(c *mortise.Client, name string) (*mortise.Hold, context.Context) {
	s.t.Helper()
	hold, ctx, err := c.Lock(name).Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return hold, ctx
}

// wait waits for a lock until the test ends.
func (s *stage) wait(ctx context.Context, c *mortise.Client, name string) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if hold, _, err := c.Lock(name).Lock(ctx); err == nil {
			_ = hold.Unlock()
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// answer is what a page answers.
type answer struct {
	code   int
	header http.Header
	body   string
}

// do makes a request.
func (s *stage) do(method, target, form string, with ...func(*http.Request)) answer {
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, w := range with {
		w(r)
	}
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// get looks at a page until it has all texts.
func (s *stage) get(target string, texts ...string) answer {
	s.t.Helper()
	var a answer
	redistest.Eventually(s.t, target+" shows "+strings.Join(texts, ", "), func() error {
		a = s.do(http.MethodGet, target, "")
		for _, text := range texts {
			if !strings.Contains(plain(a.body), text) {
				return errorOf("it has no " + text + ": " + plain(a.body))
			}
		}
		return nil
	})
	return a
}

type errorOf string

func (e errorOf) Error() string { return string(e) }

// plain returns the text of a page, without markup.
func plain(page string) string {
	if _, main, ok := strings.Cut(page, `tabindex="-1">`); ok {
		page = main
	}
	var b strings.Builder
	inside := false
	for _, r := range page {
		switch {
		case r == '<':
			inside = true
			b.WriteByte(' ')
		case r == '>':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	text := markup.Replace(html.UnescapeString(b.String()))
	return strings.Join(strings.Fields(text), " ")
}

// markup removes the spaces that stand before a mark because there was a tag.
var markup = strings.NewReplacer(" .", ".", " ,", ",", " ;", ";")

// over makes a request one that came over a connection to an address.
func over(address string) func(*http.Request) {
	return func(r *http.Request) {
		local, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			panic(err)
		}
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// follow opens a stream of a page, and returns its events until the returned function is called.
func (s *stage) follow(target string) (events chan event, end func()) {
	s.t.Helper()
	from, to := io.Pipe()
	ctx, cancel := context.WithCancel(s.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	r.Header.Set("Accept", "text/event-stream")
	events = make(chan event, 1000)
	var both sync.WaitGroup
	both.Go(func() {
		s.pages.ServeHTTP(&pipeWriter{header: make(http.Header), to: to}, r)
		_ = to.Close() // a pipe returns none
	})
	both.Go(func() {
		defer close(events)
		read(from, events)
	})
	return events, func() {
		cancel()
		_ = from.Close()
		both.Wait()
	}
}

// pipeWriter is the connection to a browser.
type pipeWriter struct {
	header http.Header
	to     *io.PipeWriter
}

func (w *pipeWriter) Header() http.Header         { return w.header }
func (w *pipeWriter) WriteHeader(int)             {}
func (w *pipeWriter) Flush()                      {}
func (w *pipeWriter) Write(p []byte) (int, error) { return w.to.Write(p) }

// event is one that a server sends.
type event struct {
	kind, data string
	at         time.Time
}

func read(from io.Reader, to chan<- event) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<22)
	var e event
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			e.kind = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			e.data += strings.TrimPrefix(line, "data: ") + "\n"
		case line == "" && e.kind != "":
			e.at = time.Now()
			to <- e
			e = event{}
		}
	}
}

// query returns a page with parameters.
func query(page string, parameters ...string) string {
	q := make(url.Values)
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	return page + "?" + q.Encode()
}
