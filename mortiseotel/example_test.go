package mortiseotel_test

import (
	"context"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
	"github.com/mortise-go/mortise/mortiseotel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A program names its provider of meters, here one that is read by hand, or has set the global one.
func Example() {
	reader := metric.NewManualReader() // in production: an exporter
	provider := metric.NewMeterProvider(metric.WithReader(reader))

	server := memredis.New() // in production: your Redis
	defer server.Close()
	client := mortise.New(server.Driver(), &mortise.Options{
		Observer: mortiseotel.New(mortiseotel.WithMeterProvider(provider)),
	})
	defer client.Close()

	ctx := context.Background()
	err := client.Lock("report").Do(ctx, func(context.Context) error { return nil })
	if err != nil {
		fmt.Println(err)
		return
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Unit)
	}
	// Output:
	// dlock.acquire.duration s
	// dlock.hold.duration s
	// dlock.held.count {hold}
}
