package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/dashboard"
)

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// releaseLink returns the page that releases a lock of a holder, as the page of the lock has it.
func (s *stage) releaseLink(name string) string {
	s.t.Helper()
	page := s.get(query("/lock", "name", name), "held by")
	m := regexp.MustCompile(`href="(release\?[^"]*)"`).FindStringSubmatch(page.body)
	if m == nil {
		s.t.Fatalf("the page of %q has no link to its release", name)
	}
	return "/" + strings.ReplaceAll(strings.ReplaceAll(m[1], "&amp;", "&"), "&#43;", "+")
}

// A lock is released by force only if the holder is still the one that the page has shown.
func TestReleaseByForce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log lockedBuffer
		s := newStage(t, &dashboard.Options{Release: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := s.client("api-7")
		first, _ := s.hold(c, "deploy")
		link := s.releaseLink("deploy")
		page := s.get(link, "api-7", "holds it", "two processes may believe", "all of them are asked", first.Owner())
		if strings.Contains(page.body, "live.js") || strings.Contains(page.body, `id="live"`) {
			t.Error("a page with a question changes while it is open")
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		second, under := s.hold(s.client("api-8"), "deploy")
		wantGone(t, s.do(http.MethodPost, link, "do=release"), "api-7 pid")
		s.get("/", "api-8") // its record tells of the hold, so it could be asked
		for _, do := range []string{"release", "ask"} {
			a := s.do(http.MethodPost, link, "do="+do)
			if a.code != http.StatusConflict || !strings.Contains(plain(a.body), "Nothing was done: the holder that the page has shown does not hold it any more") {
				t.Errorf("%s of a holder that has gone answers with %d: %s", do, a.code, plain(a.body))
			}
		}
		s.get(link, "It is held by api-8")
		time.Sleep(3 * time.Second) // in which a holder that was asked would have heard of it
		if context.Cause(under) != nil {
			t.Fatalf("the other holder has lost the lock: %v", context.Cause(under))
		}
		link = s.releaseLink("deploy")
		a := s.do(http.MethodPost, link, "do=release", func(r *http.Request) { r.SetBasicAuth("ada", "secret-password") })
		if a.code != http.StatusSeeOther || a.header.Get("Location") != "lock?done=release&name=deploy" {
			t.Fatalf("a release answers with %d and %q: %s", a.code, a.header.Get("Location"), plain(a.body))
		}
		s.get("/"+a.header.Get("Location"), "Nobody holds it.", "released by force")
		if a := s.do(http.MethodPost, link, "do=release"); a.code != http.StatusConflict || !strings.Contains(plain(a.body), "Nobody holds it now.") {
			t.Errorf("a second release answers with %d: %s", a.code, plain(a.body))
		}
		if err := second.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("the holder whose lock was released gets %v", err)
		}
		wantLog(t, &log, second.Owner())
	})
}

// wantGone checks that a release was refused, and that the page says nothing of the former holder, and offers nothing.
func wantGone(t *testing.T, a answer, holder string) {
	t.Helper()
	if text := plain(a.body); a.code != http.StatusConflict || !strings.Contains(text, "Nothing was done") || strings.Contains(text, holder) || strings.Contains(a.body, "<form") {
		t.Errorf("at once after the lock has another holder, a release answers with %d: %s", a.code, text)
	}
}

// wantLog checks that what was done is in the log, and no password.
func wantLog(t *testing.T, log *lockedBuffer, owner string) {
	t.Helper()
	for _, want := range []string{`msg="mortise: dashboard: nothing was done" action=release lock=deploy`, `msg="mortise: dashboard: released by force" action=release lock=deploy owner=` + owner, "user=ada"} {
		if got := log.String(); !strings.Contains(got, want) || strings.Contains(got, "secret-password") {
			t.Errorf("the log has no %q, or a password: %s", want, got)
		}
	}
}

// A holder that is asked is told why, and releases.
func TestReleaseByAsking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Release: true})
		hold, under := s.hold(s.client("api-7"), "deploy")
		s.get("/", "api-7")
		link := s.releaseLink("deploy")
		if a := s.do(http.MethodPost, link, "do=ask&reason="+strings.Repeat("x", 201)); a.code != http.StatusBadRequest || !strings.Contains(plain(a.body), "too long") {
			t.Errorf("a reason that is too long gets %d", a.code)
		}
		a := s.do(http.MethodPost, link, "do=ask&reason=hotfix+4711", func(r *http.Request) { r.SetBasicAuth("ada", "secret-password") })
		if a.code != http.StatusSeeOther {
			t.Fatalf("it answers with %d: %s", a.code, plain(a.body))
		}
		<-under.Done()
		if err := context.Cause(under); !errors.Is(err, mortise.ErrRevoked) || !strings.HasSuffix(err.Error(), `: "hotfix 4711, by ada on the dashboard"`) {
			t.Errorf("the context has ended with %v", err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		s.get("/lock?name=deploy&done=ask", "The holder was asked", "Nobody holds it.")
	})
}

// Each kind of lock can be released from its page.
func TestReleaseEachKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Release: true})
		c := s.client("api-7")
		ctx := t.Context()
		if err := c.PermitSemaphore("permits").SetPermits(ctx, 1); err != nil {
			t.Fatal(err)
		}
		for name, take := range map[string]func() error{
			"fair":    func() error { _, _, err := c.FairLock("fair").Lock(ctx); return err },
			"fenced":  func() error { _, _, err := c.FencedLock("fenced").Lock(ctx); return err },
			"read":    func() error { _, _, err := c.RWLock("read").Read().Lock(ctx); return err },
			"write":   func() error { _, _, err := c.RWLock("write").Write().Lock(ctx); return err },
			"group":   func() error { _, _, err := c.GroupLock("group", "a", "b").Lock(ctx); return err },
			"lead":    func() error { _, _, err := c.Election("lead").Campaign(ctx, "x"); return err },
			"permits": func() error { _, _, err := c.PermitSemaphore("permits").Acquire(ctx); return err },
		} {
			if err := take(); err != nil {
				t.Fatal(name, err)
			}
			s.get("/", name)
			link := s.releaseLink(name)
			s.get(link, "holds it")
			if a := s.do(http.MethodPost, link, "do=release"); a.code != http.StatusSeeOther {
				t.Errorf("the release of %s answers with %d: %s", name, a.code, plain(a.body))
				continue
			}
			state, err := c.Inspect(ctx, name)
			if err != nil || state.Locked {
				t.Errorf("%s is still held: %+v, %v", name, state, err)
			}
		}
	})
}
