package mortiseprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
	"github.com/mortise-go/mortise/mortiseprom"
)

func Example() {
	redis := memredis.New() // in a program, a driver of a Redis
	defer redis.Close()

	metrics := mortiseprom.New(nil)
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	client := mortise.New(redis.Driver(), &mortise.Options{Observer: metrics})
	defer client.Close()

	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	err := client.Lock("report").Do(context.Background(), func(context.Context) error {
		page := httptest.NewRecorder()
		pages.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if strings.HasPrefix(line, "dlock_held{") || strings.HasPrefix(line, `dlock_lost_total{kind="lock"`) {
				fmt.Print(line)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// dlock_held{kind="lock"} 1
	// dlock_lost_total{kind="lock",reason="closed"} 0
	// dlock_lost_total{kind="lock",reason="expired"} 0
	// dlock_lost_total{kind="lock",reason="forced"} 0
	// dlock_lost_total{kind="lock",reason="other"} 0
	// dlock_lost_total{kind="lock",reason="taken"} 0
	// dlock_lost_total{kind="lock",reason="unreachable"} 0
}

// The metrics get the label lock, with the same value for the locks of all orders.
func ExampleCollapseIDs() {
	metrics := mortiseprom.New(&mortiseprom.Options{Name: mortiseprom.CollapseIDs})
	prometheus.NewRegistry().MustRegister(metrics)

	fmt.Println(mortiseprom.CollapseIDs("order:4711"))
	fmt.Println(mortiseprom.CollapseIDs("cart:6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
	// Output:
	// order:*
	// cart:*
}
