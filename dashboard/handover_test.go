package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// A lock passes from process to process, and each of them ends: pages show one holder at each moment, with its process,
// and no former one for long.
func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		program := func(host string) *mortise.Client {
			c := mortise.New(s.server.Driver(), &mortise.Options{Identity: mortise.Identity{Host: host, App: "deploy"}})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		hosts := []string{"api-1", "api-2", "api-3", "api-4", "api-5", "api-6"}
		last := program(hosts[0])
		hold, _ := s.hold(last, "deploy")
		for _, host := range hosts[1:] {
			next := program(host)
			taken := make(chan *mortise.Hold)
			go func() {
				hold, _, err := next.Lock("deploy").Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				taken <- hold
			}()
			s.get("/lock?name=deploy", host, "held by")
			ended := time.Now()
			if err := hold.Unlock(); err != nil {
				t.Fatal(err)
			}
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
			hold = <-taken
			for range 60 {
				lock, home := plain(s.do(http.MethodGet, "/lock?name=deploy", "").body), plain(s.do(http.MethodGet, "/", "").body)
				events := plain(s.do(http.MethodGet, "/events", "").body)
				for page, text := range map[string]string{"the lock's page": lock, "the first page": home, "the page of events": events} {
					for _, never := range []string{"does not tell its process", "more holder", "other holder"} {
						if strings.Contains(text, never) {
							t.Fatalf("%s says %q %v after a hand-over to %s: %s", page, never, time.Since(ended), host, text)
						}
					}
				}
				if late := time.Since(ended); late > 1200*time.Millisecond && !strings.Contains(lock, "held by "+host) {
					t.Fatalf("%v after a hand-over to %s: %s", late, host, lock)
				}
				time.Sleep(50 * time.Millisecond)
			}
			last = next
		}
	})
}
