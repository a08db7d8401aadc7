package rueidis_test

import (
	"context"
	"fmt"
	"testing"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// BenchmarkEval measures one script call through the driver, next to the same
// call through the client alone, by one goroutine and by many.
func BenchmarkEval(b *testing.B) {
	server := redistest.Single(b)
	client, err := redis.NewClient(redis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, PipelineMultiplex: -1, RingScaleEachConn: 9,
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10, DisableCache: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	d := rueidis.Wrap(client)
	defer d.Close()
	script := driver.NewScript("bench", "return redis.call('INCR', KEYS[1])")
	call := driver.Call{Script: script, Keys: []string{"bench"}, Args: []string{"a", "b"}}
	if _, err := d.Eval(b.Context(), call); err != nil {
		b.Fatal(err)
	}
	ways := map[string]func(context.Context) error{
		"driver": func(ctx context.Context) error { _, err := d.Eval(ctx, call); return err },
		"client": func(ctx context.Context) error {
			return client.Do(ctx, client.B().Evalsha().Sha1(script.SHA()).Numkeys(1).Key("bench").Arg("a", "b").Build()).Error()
		},
	}
	for _, name := range []string{"client", "driver"} {
		for _, goroutines := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/%d", name, goroutines), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(max(1, goroutines/2)) // times GOMAXPROCS
				if goroutines == 1 {
					for b.Loop() {
						if err := ways[name](b.Context()); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := ways[name](b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
