package alertstest

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/prometheus/prometheus/promql"
)

// dashboard is what matters here of one.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr string }
	}
}

// Each expression of the dashboard shows something if there is something.
func TestDashboardShowsWhatHappens(t *testing.T) {
	text, err := os.ReadFile("../grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	s := load(t, run(t, func(f *fleet) {
		f.work()
		ended := f.cross()
		f.pass(time.Minute)
		<-ended
		<-ended
		h, lost := f.take(f.a, "report"), f.take(f.a, "lost")
		time.AfterFunc(2*time.Minute, func() { _ = h.Unlock() })
		f.b.metrics.Observe(mortise.Event{Type: mortise.EventPaused, Pause: time.Second}) // virtual time does not stand still
		go func() { f.release(f.take(f.b, "report")) }()
		time.AfterFunc(20*time.Second, func() { _, _ = f.b.Ask(f.Context(), "report", "a test") })
		time.AfterFunc(30*time.Second, func() { f.b.link.Cut(0) })
		f.server.Evict("lost")
		f.pass(time.Minute)
		f.a.link.Partition()
		time.Sleep(15 * time.Second)
		f.a.link.Heal()
		f.pass(3 * time.Minute)
		f.release(lost)
	}))
	grafana := strings.NewReplacer("$__rate_interval", "1m", "$job", "api|.*other")
	ids, places := make(map[int]bool), make(map[[2]int]bool)
	for _, panel := range d.Panels {
		at := [2]int{panel.GridPos.X, panel.GridPos.Y}
		if ids[panel.ID] || places[at] || len(panel.Targets) == 0 {
			t.Errorf("panel %q shares its id or its place, or shows nothing", panel.Title)
		}
		ids[panel.ID], places[at] = true, true
		for _, target := range panel.Targets {
			expr := grafana.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %q has a variable that the test does not know: %s", panel.Title, expr)
			}
			if !s.shows(t, expr) {
				t.Errorf("panel %q shows nothing, or only zeros: %s", panel.Title, expr)
			}
		}
	}
	if len(d.Panels) < 10 {
		t.Errorf("%d panels, want more: is the file read right?", len(d.Panels))
	}
}

// shows reports whether an expression has a value other than zero at some time.
func (s *server) shows(t *testing.T, expr string) bool {
	t.Helper()
	q, err := s.engine.NewRangeQuery(t.Context(), s.db, nil, expr, s.first, s.last, every)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", expr, result.Err)
	}
	matrix, ok := result.Value.(promql.Matrix)
	if !ok {
		t.Fatalf("%s is a %s", expr, result.Value.Type())
	}
	for _, series := range matrix {
		for _, point := range series.Floats {
			if point.F != 0 && !math.IsNaN(point.F) {
				return true
			}
		}
	}
	return false
}
