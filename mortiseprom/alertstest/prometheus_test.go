package alertstest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// server is a Prometheus without its network.
type server struct {
	db     *tsdb.DB
	engine *promql.Engine
	parser parser.Parser
	first  time.Time
	last   time.Time
}

// load returns a server that has read these metrics.
func load(t *testing.T, scrapes []scrape) *server {
	t.Helper()
	if len(scrapes) == 0 {
		t.Fatal("no metrics were read")
	}
	s := &server{parser: parser.NewParser(parser.Options{}), first: scrapes[0].at, last: scrapes[len(scrapes)-1].at}
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0 // all of it, however old
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s.db = db
	s.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: s.parser})
	for _, one := range scrapes {
		to := db.Appender(t.Context())
		for _, sample := range one.samples {
			b := labels.NewScratchBuilder(8)
			b.Add("job", "api")
			b.Add("instance", one.instance)
			for name, value := range sample.Metric {
				b.Add(string(name), string(value))
			}
			b.Sort()
			if _, err := to.Append(0, b.Labels(), one.at.UnixMilli(), float64(sample.Value)); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fired is an alert that was sent.
type fired struct {
	labels      labels.Labels
	annotations labels.Labels
	from, until time.Duration // since the first metrics were read
}

// alerts evaluates the rules, and returns the alerts by their names, the first one of each.
func (s *server) alerts(t *testing.T) map[string]*fired {
	t.Helper()
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(s.engine, s.db), Appendable: s.db, Context: t.Context(), Parser: s.parser,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
	})
	groups, errs := m.LoadGroups(every, labels.EmptyLabels(), "", nil, false, "../alerts.yml")
	if errs != nil {
		t.Fatal(errs)
	}
	all := make(map[string]*fired)
	for at := s.first; !at.After(s.last); at = at.Add(every) {
		for _, group := range groups {
			group.Eval(t.Context(), at)
			for _, rule := range group.Rules() {
				if err := rule.LastError(); err != nil {
					t.Fatalf("%s: %v", rule.Name(), err)
				}
			}
			for _, rule := range group.AlertingRules() {
				for _, a := range rule.ActiveAlerts() {
					if a.State != rules.StateFiring {
						continue
					}
					if all[rule.Name()] == nil {
						all[rule.Name()] = &fired{labels: a.Labels, annotations: a.Annotations, from: at.Sub(s.first)}
					}
					all[rule.Name()].until = at.Sub(s.first)
				}
			}
		}
	}
	return all
}
