package dashboard_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/dashboard"
)

// Requests that are refused do not flood the log, and cannot write lines of their own into it.
func TestRefusalsInTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newStage(t, &dashboard.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		post := func(target string) {
			t.Helper()
			a := s.do(http.MethodPost, target, "do=release", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
			if a.code != http.StatusForbidden {
				t.Fatalf("another site gets %d", a.code)
			}
		}
		for range 50 {
			post(query("/release", "lock", strings.Repeat("\x1b", 60_000), "owner", "x"))
		}
		if n := strings.Count(log.String(), "\n"); n != 5 || log.Len() > 10_000 {
			t.Errorf("50 requests have made %d lines with %d bytes", n, log.Len())
		}
		if strings.Contains(log.String(), `\u001b`) || !strings.Contains(log.String(), `\\x1b`) {
			t.Errorf("control characters are not quoted: %.300s", log.String())
		}
		time.Sleep(time.Second)
		log.Reset()
		post(query("/release", "lock", "deploy", "owner", "x"))
		if got := log.String(); !strings.Contains(got, `"lock":"deploy"`) || !strings.Contains(got, `"left out before":45`) {
			t.Errorf("a second later the log has %s", got)
		}
	})
}

// A redirect to the path with a slash leads nowhere else, whatever the path is.
func TestRedirectToTheSlash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		for _, test := range []struct {
			prefix, uri, want string
			code              int
		}{
			{"/a:b", "/a:b", "./a:b/", http.StatusMovedPermanently},
			{"/a:b", "/a:b?q=/x", "./a:b/", http.StatusMovedPermanently},
			{"/admin/a%3Ab", "/admin/a%3Ab", "./a%3Ab/", http.StatusMovedPermanently},
			{"/x", "http://localhost/x", "./x/", http.StatusMovedPermanently},
			{"", "http://localhost", "", http.StatusOK},
			{"/x/", "/x/", "", http.StatusOK}, // stripped with the slash
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.uri, nil)
			r.RequestURI = test.uri
			r.URL.Path = strings.TrimPrefix(r.URL.Path, strings.ReplaceAll(test.prefix, "%3A", ":"))
			w := httptest.NewRecorder()
			s.pages.ServeHTTP(w, r)
			if got := w.Header().Get("Location"); w.Code != test.code || got != test.want {
				t.Errorf("%s below %q answers with %d to %q, want %d to %q", test.uri, test.prefix, w.Code, got, test.code, test.want)
			}
		}
	})
}
