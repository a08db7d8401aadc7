package dashboard_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/dashboard"
)

// What an examination has found is shown as what was, once it may not be so any more, and without its commands.
func TestFindingsGrowOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Mortise: "mortise --redis redis://db:1"})
		c, d := s.client("left"), s.client("right")
		_, underC := s.hold(c, "c")
		_, underD := s.hold(d, "d")
		over, end := context.WithCancel(underC)
		s.wait(over, c, "d")
		s.wait(underD, d, "c")
		const command = "mortise --redis redis://db:1 unlock --ask --reason deadlock"
		s.get("/", "Deadlock")
		s.get("/health", "About the commands: They are to be run against the Redis that this dashboard looks at: give redis-cli its address with -h and -p.", command, "the worst: critical", "processes wait for each other")
		now := func() string { return plain(s.do(http.MethodGet, "/health", "").body) }
		end()
		time.Sleep(3 * time.Second)
		if got := now(); strings.Contains(got, command) || strings.Contains(got, "critical") || !strings.Contains(got, "there was a deadlock, which is over") {
			t.Errorf("a deadlock that is over is shown as %s", got)
		}
		time.Sleep(10 * time.Minute) // nobody looks
		got := now()
		if !regexp.MustCompile(`Redis is being examined; that takes some seconds\. The last examination, 10m \d\ds ago, found \d+ things? that w\w+ not in order`).MatchString(got) || strings.Contains(got, "the worst") {
			t.Errorf("after ten minutes the page says %s", got)
		}
		s.get("/health", "the worst:")
		if got := now(); strings.Contains(got, "deadlock, which is over") {
			t.Errorf("after another examination the page says %s", got)
		}
		s.server.Close()
		got = plain(s.get("/health", "Redis cannot be read", "Redis cannot be examined now. The last examination,").body)
		if !regexp.MustCompile(`\d+ things were in order`).MatchString(got) {
			t.Errorf("without Redis the page says %s", got)
		}
	})
}
