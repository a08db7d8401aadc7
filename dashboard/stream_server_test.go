//go:build server

package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// follow opens a stream of a page, and returns its events until the returned function is called.
func follow(t *testing.T, address string) (events chan event, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a stream answers with %d and %q", response.StatusCode, response.Header.Get("Content-Type"))
	}
	events = make(chan event, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		read(response.Body, events)
	}()
	return events, func() {
		cancel()
		<-done
		_ = response.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

// real is a dashboard on a real server, and a URL of it.
func real(t *testing.T, o *dashboard.Options) (*redistest.Server, string) {
	t.Helper()
	redis := redistest.Single(t)
	d, err := connect.Open(t.Context(), "redis://"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	pages := dashboard.New(d, o)
	server := httptest.NewServer(pages)
	t.Cleanup(func() {
		if err := pages.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		server.Close()
	})
	return redis, server.URL
}

// commands returns how many commands a server has processed that were not of the test itself.
func commands(t *testing.T, redis *redistest.Server) (n int) {
	t.Helper()
	for line := range strings.SplitSeq(fmt.Sprint(redis.Must(t, "INFO", "commandstats")), "\n") {
		var calls int
		if _, after, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(line, "cmdstat_eval") {
			if _, err := fmt.Sscanf(after, "%d", &calls); err != nil {
				t.Fatal(err)
			}
			n += calls
		}
	}
	return n
}

// Fifty browsers cost Redis what one costs, also if they look at one lock closely; and it is less than the bound.
func TestManyBrowsersCostWhatOneCosts(t *testing.T) {
	t.Parallel()
	redis, address := real(t, &dashboard.Options{Load: 60})
	d, err := connect.Open(t.Context(), "redis://"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(d, nil)
	defer c.Close()
	hold, _, err := c.Lock("deploy").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Unlock() }()
	const period = 8 * time.Second
	cost := func(browsers int) float64 {
		var ends []func()
		for i := range browsers {
			page := []string{"/", "/lock?name=deploy"}[i%2]
			if browsers == 1 {
				page = "/lock?name=deploy"
			}
			events, end := follow(t, address+page)
			ends = append(ends, end)
			until(t, events, "page", "deploy")
		}
		before := commands(t, redis)
		time.Sleep(period) // a rate takes time
		n := float64(commands(t, redis)-before) / period.Seconds()
		for _, end := range ends {
			end()
		}
		return n
	}
	one, fifty := cost(1), cost(50)
	t.Logf("one browser costs %.1f commands a second, fifty cost %.1f", one, fifty)
	if fifty > 1.3*one+2 || fifty > 60 || one < 1 {
		t.Errorf("one browser costs %.1f commands a second, and fifty %.1f, with a bound of 60", one, fifty)
	}
}

// Ten thousand locks are a page of bounded size that is served in less time than one look, and within the load.
func TestTenThousandLocks(t *testing.T) {
	t.Parallel()
	redis, address := real(t, &dashboard.Options{Load: 10_000})
	const locks = 10_000
	script := `for i = 1, tonumber(ARGV[1]) do redis.call('hset', 'lock:' .. i, string.format('8f1c2b3a-0000-4000-8000-%012d:7', i), 1) end`
	redis.Must(t, "EVAL", script, "0", fmt.Sprint(locks))
	get := func(t *testing.T, path string) (string, time.Duration) {
		t.Helper()
		start := time.Now()
		response, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body), time.Since(start)
	}
	defer http.DefaultClient.CloseIdleConnections()
	for known := 0; known < locks; { // on a busy machine the search takes a while
		redistest.Eventually(t, fmt.Sprintf("more locks are found than %d of %d", known, locks), func() error {
			page, _ := get(t, "/")
			m := regexp.MustCompile(`([\d ]+) locks? held`).FindStringSubmatch(plain(page))
			if m == nil {
				return errorOf(plain(page))
			}
			n, err := strconv.Atoi(strings.ReplaceAll(m[1], " ", ""))
			if err != nil {
				return err
			}
			if n < min(locks, known+1000) {
				return fmt.Errorf("%d", n)
			}
			known = n
			return nil
		})
	}
	var page string
	try := 0
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		took := time.Hour
		for i := range 5 {
			p, d := get(t, fmt.Sprint("/?sort=name&q=lock:", 5*try+i)) // another one each time, which nobody has rendered yet
			page, took = p, min(took, d)
		}
		try++
		b.Within("a page, which must not take longer than a look", took, 250*time.Millisecond)
	})
	if len(page) > 200_000 || strings.Count(page, "<tr id=") != 100 || !strings.Contains(plain(page), "The first 100 of") {
		t.Errorf("the page has %d bytes and %d rows", len(page), strings.Count(page, "<tr id="))
	}
	found, _ := get(t, "/?q=lock:77")
	if n := strings.Count(found, "<tr id="); n == 0 {
		t.Errorf("a search finds nothing: %s", plain(found))
	}
}
