package dashboard_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/dashboard"
)

// All readers of a lock are asked, whichever the form names. If that one cannot be asked, the page and the log say that others were.
func TestAskWhereOneHides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log lockedBuffer
		s := newStage(t, &dashboard.Options{Release: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		seen, hiding := s.process(mortise.Identity{Host: "api-7"}), s.process(mortise.Identity{Hide: true})
		other, under, err := seen.RWLock("config").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		hold, _, err := hiding.RWLock("config").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		s.get("/lock?name=config", "config")
		a := s.do(http.MethodPost, query("/release", "lock", "config", "owner", hold.Owner()), "do=ask&reason=hotfix")
		text := plain(a.body)
		if a.code != http.StatusConflict || !strings.Contains(text, "Only other holders were asked to release it (1): the holder cannot be asked") || strings.Contains(text, "Nothing was done") {
			t.Errorf("%d %s", a.code, text)
		}
		time.Sleep(3 * time.Second)
		if !errors.Is(context.Cause(under), mortise.ErrRevoked) {
			t.Errorf("the context of the other reader has ended with %v, want that it was asked", context.Cause(under))
		}
		if text := log.String(); !strings.Contains(text, "asked others to release") || strings.Contains(text, "nothing was done") {
			t.Errorf("the log has %s", text)
		}
		for _, h := range []*mortise.Hold{other, hold} {
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		}
	})
}
