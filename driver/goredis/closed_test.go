package goredis_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/memredis"
)

// TestClosedClients: every call says so, whatever the client has done before.
func TestClosedClients(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	dial := func(context.Context, string, string) (net.Conn, error) { return server.Dial() }
	clients := map[string]func() redis.UniversalClient{
		"single": func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Dialer: dial, Protocol: 2})
		},
		"single without limits": func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Dialer: dial, Protocol: 2, ReadTimeout: -1, WriteTimeout: -1})
		},
		"cluster": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				Dialer: dial, Protocol: 2,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{
						{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:6379"}}},
						{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: "10.0.0.2:6379"}}},
					}, nil
				},
			})
		},
	}
	for name, open := range clients {
		for when, used := range map[string]bool{"unused": false, "used": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				client := open()
				d := goredis.Wrap(client.(goredis.Client))
				defer d.Close()
				if used {
					for _, key := range []string{"bar", "foo"} { // of both nodes
						if _, err := d.Eval(t.Context(), incr(key)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := client.Close(); err != nil {
					t.Fatal(err)
				}
				for op, f := range map[string]func(context.Context) error{
					"Eval":  func(ctx context.Context) error { _, err := d.Eval(ctx, incr("foo")); return err },
					"Batch": func(ctx context.Context) error { return d.Batch(ctx, []driver.Call{incr("foo"), incr("bar")})[1].Err },
					"Scan":  func(ctx context.Context) error { return d.Scan(ctx, "*", func([]string) error { return nil }) },
					"EvalWait": func(ctx context.Context) error {
						return d.EvalWait(ctx, []driver.Call{incr("foo")}, driver.Wait{})[0].Err
					},
				} {
					for _, ctx := range []context.Context{context.Background(), t.Context(), driver.Until(time.Now().Add(time.Hour))} {
						if err := f(ctx); err == nil || driver.ClassOf(err) != driver.Closed {
							t.Errorf("%s with a %T: %v, want class %v", op, ctx, err, driver.Closed)
						}
					}
				}
			})
		}
	}
}
