package mortiseprom_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrape returns what Prometheus reads from a collector: the values by series, as written in the text
// format.
func scrape(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if page.Code != 200 {
		t.Fatalf("the page says %d: %s", page.Code, page.Body)
	}
	series := make(map[string]float64)
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		series[line[:at]] = value
	}
	return series
}

// wants compares series with what they should be. Series that are not there have no value.
func wants(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if have, ok := got[name]; !ok || have != value {
			t.Errorf("%s is %v, there: %t; want %v", name, have, ok, value)
		}
	}
}

// only returns the series of one metric whose value is not 0.
func only(series map[string]float64, metric string) map[string]float64 {
	some := make(map[string]float64)
	for name, value := range series {
		if (name == metric || strings.HasPrefix(name, metric+"{")) && value != 0 {
			some[name] = value
		}
	}
	return some
}
