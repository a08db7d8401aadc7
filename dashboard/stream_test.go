package dashboard_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise/dashboard"
)

// until returns the next event of a kind that has all texts.
func until(t *testing.T, events <-chan event, kind string, texts ...string) event {
	t.Helper()
	limit := time.After(time.Minute)
	var last event
next:
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the stream has ended; want %s with %q", kind, texts)
			}
			if e.kind != kind {
				continue
			}
			last = e
			for _, text := range texts {
				if !strings.Contains(plain(e.data), text) {
					continue next
				}
			}
			return e
		case <-limit:
			t.Fatalf("no %s with %q; the last one: %s", kind, texts, plain(last.data))
		}
	}
}

// A stream sends a page when it has changed, and nothing but a beat while it has not: ages do not count.
func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		c := s.client("api-7")
		hold, _ := s.hold(c, "deploy")
		events, end := s.follow("/")
		defer end()
		first := until(t, events, "page", "deploy", "api-7", "nobody waits")
		if !strings.Contains(first.data, `<div id="alert">`) || !strings.Contains(first.data, `<div id="live">`) || strings.Contains(first.data, "<html") {
			t.Errorf("a change has the wrong parts: %s", first.data)
		}
		// The record replaces what the key has told, and the end of the lease moves with each renewal.
		settled, last := until(t, events, "beat"), ""
		for beats := 0; beats < 2; {
			e := <-events
			if e.kind == "beat" {
				beats++
				continue
			}
			if e.data == last || ends.ReplaceAllString(e.data, "") == ends.ReplaceAllString(last, "") && ends.FindString(e.data) == ends.FindString(last) {
				t.Errorf("a page was sent that has not changed: %s", e.data)
			}
			if rest := ends.ReplaceAllString(e.data, ""); last != "" && e.at.Sub(settled.at) > time.Second && rest != ends.ReplaceAllString(last, "") {
				t.Errorf("a page was sent %v later, though no lease was renewed: %s", e.at.Sub(settled.at), plain(e.data))
			}
			last = e.data
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		gone := until(t, events, "page", "Nothing is held")
		t.Logf("a release shows after %v", gone.at.Sub(start))
		if took := gone.at.Sub(start); took > 5*time.Second {
			t.Errorf("a release shows after %v", took)
		}
	})
}

var ends = regexp.MustCompile(`data-until="\d+"`)

// Closing the dashboard ends its streams.
func TestCloseEndsStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		events, end := s.follow("/events")
		defer end()
		until(t, events, "beat")
		if err := s.pages.Close(); err != nil {
			t.Fatal(err)
		}
		for range events { // until it ends
		}
	})
}

// A browser that may not look any more is not told of changes for longer than some seconds.
func TestStreamIsAuthorizedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var left atomic.Bool
		s := newStage(t, &dashboard.Options{Authorize: func(*http.Request, dashboard.Action) error {
			if left.Load() {
				return errors.New("the session has ended")
			}
			return nil
		}})
		events, end := s.follow("/")
		defer end()
		time.Sleep(time.Minute)
		until(t, events, "beat")
		left.Store(true)
		start := time.Now()
		for range events { // until it ends
			if time.Since(start) > time.Minute {
				t.Fatalf("a stream goes on for %v after it was refused", time.Since(start))
			}
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("a stream ends %v after it was refused", took)
		}
		if a := s.do(http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }); a.code != http.StatusForbidden {
			t.Errorf("a stream that is asked for again gets %d", a.code)
		}
	})
}
