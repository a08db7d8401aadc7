package goredis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/leaks"
)

// The tests that need a server are in tests/server/goredis.

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// refusals is a driver.Sink that receives refused subscriptions.
type refusals chan string

func (r refusals) Subscribed(channel string)         { r <- channel + " was subscribed" }
func (r refusals) Refused(channel string, err error) { r <- channel + ": " + err.Error() }
func (r refusals) Message(channel, payload string)   { r <- channel + ": " + payload }

func incr(key string) driver.Call {
	return driver.Call{Script: driver.NewScript("incr", `return redis.call('INCR', KEYS[1])`), Keys: []string{key}}
}

// TestRefusedClients: a client that locks cannot work with fails every call, with an error that
// says why and does not look temporary.
func TestRefusedClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() }) // it has never been used
	tests := []struct {
		name   string
		client goredis.Client
		want   string
	}{
		{"ring", ring, "*redis.Ring"},
		{"ring in another type", struct{ *redis.Ring }{ring}, "redis.Ring"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := goredis.Wrap(tt.client)
			sink := refusals(make(chan string, 1))
			sub := d.Subscriber(sink)
			_, evalErr := d.Eval(t.Context(), incr("k"))
			_, topologyErr := d.Topology(t.Context())
			scanErr := d.Scan(t.Context(), "*", func([]string) error { return nil })
			batch := d.Batch(t.Context(), []driver.Call{incr("k"), incr("l")})
			for _, err := range []error{evalErr, topologyErr, scanErr, batch[0].Err, batch[1].Err} {
				if driver.ClassOf(err) != driver.Unfit {
					t.Errorf("%v has class %v, want %v", err, driver.ClassOf(err), driver.Unfit)
				}
				if err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%q does not mention %q", err, tt.want)
				}
			}
			if got := d.Shard("k"); got != "" {
				t.Errorf("Shard = %q, want none", got)
			}
			sub.Subscribe("ch", false)
			if got := <-sink; !strings.Contains(got, tt.want) {
				t.Errorf("the subscription was refused with %q, which does not mention %q", got, tt.want)
			}
			c := mortise.New(d, nil)
			if _, _, err := c.Lock("k").TryLock(t.Context()); !errors.Is(err, mortise.ErrInvalid) || errors.Is(err, mortise.ErrDenied) {
				t.Errorf("TryLock: %v, want ErrInvalid", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWrapOfNilPanics(t *testing.T) {
	for name, client := range map[string]goredis.Client{
		"nil": nil, "client": (*redis.Client)(nil), "cluster client": (*redis.ClusterClient)(nil), "ring": (*redis.Ring)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != "goredis: nil client" {
					t.Errorf("it panicked with %v, want: goredis: nil client", got)
				}
			}()
			goredis.Wrap(client)
		})
	}
}
