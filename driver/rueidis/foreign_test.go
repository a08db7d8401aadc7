package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// The calls of a client share the connection that one of them opens. If that one is cancelled, the others open it themselves.
func TestConnectionThatAnotherCallGaveUp(t *testing.T) {
	for what, call := range map[string]func(d *Driver) error{
		"Command": func(d *Driver) error {
			_, err := d.Command(context.Background(), high, "PING")
			return err
		},
		"Eval": func(d *Driver) error { return eval(d, ofHigh) },
		"Batch": func(d *Driver) error {
			calls := []driver.Call{{Script: one, Keys: []string{ofHigh}}, {Script: one, Keys: []string{ofHigh}}}
			results := d.Batch(context.Background(), calls)
			return errors.Join(results[0].Err, results[1].Err)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes, slots := &twoNodes{admit: make(chan struct{})}, mapOfSlots
			nodes.slots.Store(&slots)
			close(nodes.admit)
			var givenUp atomic.Int32
			client, err := redis.NewClient(redis.ClientOption{
				InitAddress: []string{low}, AlwaysRESP2: true, DisableCache: true, ClientSetInfo: redis.DisableClientSetInfo,
				DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
					if addr == high && givenUp.Add(1) < tries {
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}
					}
					return nodes.dial(ctx, addr, dialer, config)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			d := Own(client)
			defer func() {
				_ = d.Close()
				time.Sleep(5 * time.Second) // until the client has read the map of slots for the last time
			}()
			if _, err := d.Topology(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := call(d); err != nil {
				t.Errorf("%s: %v, after %d connections", what, err, givenUp.Load())
			}
		})
	}
}
