package mortiseprom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/mortise-go/mortise/mortiseprom"
)

// The module alertstest tests the alerts and the dashboard with Prometheus itself.
func TestAlertsAndDashboardUseOurMetrics(t *testing.T) {
	c := mortiseprom.New(nil)
	tellAll(c, "lock", "x")
	exported := make(map[string]bool)
	for name := range scrape(t, c) {
		exported[regexp.MustCompile(`^\w+`).FindString(name)] = true
	}
	for _, file := range []string{"alerts.yml", "grafana.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file == "grafana.json" && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		used := regexp.MustCompile(`\bdlock_\w+`).FindAllString(string(text), -1)
		if len(used) < 4 {
			t.Errorf("%s uses only %q", file, used)
		}
		for _, name := range used {
			if !exported[name] {
				t.Errorf("%s uses %s, which is not exported", file, name)
			}
		}
	}
}
