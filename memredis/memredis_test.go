package memredis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// clients are the Redis clients that applications use, reduced to what a test needs. Each connects
// with dial, or to addr if that is nil.
var clients = map[string]func(t *testing.T, addr string, dial func() (net.Conn, error)) client{
	"go-redis": func(t *testing.T, addr string, dial func() (net.Conn, error)) client {
		o := &goredis.Options{Addr: addr, Protocol: 2}
		if dial != nil {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) { return dial() }
		}
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() }) // nothing is lost by a failed close
		return func(ctx context.Context, args ...string) (string, error) {
			var list []any
			for _, a := range args {
				list = append(list, a)
			}
			v, err := c.Do(ctx, list...).Result()
			return fmt.Sprint(v), err
		}
	},
	"rueidis": func(t *testing.T, addr string, dial func() (net.Conn, error)) client {
		o := rueidis.ClientOption{InitAddress: []string{addr}, AlwaysRESP2: true, DisableCache: true}
		if dial != nil {
			o.InitAddress = []string{"127.0.0.1:6379"} // without meaning
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return dial() }
		}
		c, err := rueidis.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return func(ctx context.Context, args ...string) (string, error) {
			v, err := c.Do(ctx, c.B().Arbitrary(args...).Build()).ToAny()
			return fmt.Sprint(v), err
		}
	},
}

type client func(ctx context.Context, args ...string) (string, error)

func TestListenServesAnyClient(t *testing.T) {
	for name, connect := range clients {
		for _, way := range []string{"TCP", "memory"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				s, err := memredis.Listen("127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Close)
				dial := s.Dial
				if way == "TCP" {
					dial = nil
				}
				do := connect(t, s.Addr(), dial)
				d := s.Driver()
				defer d.Close()
				eval(t, d, call(set, "k", "from the driver", "3600000"))
				for _, step := range []struct {
					args []string
					want string
				}{
					{[]string{"GET", "k"}, "from the driver"},
					{[]string{"HINCRBY", "h", "f", "3"}, "3"},
					{[]string{"EVAL", "return redis.call('hget', KEYS[1], 'f')", "1", "h"}, "3"},
				} {
					if got, err := do(t.Context(), step.args...); err != nil || got != step.want {
						t.Errorf("%v: %s, %v, want %s", step.args, got, err, step.want)
					}
				}
			})
		}
	}
}

func TestListenOnATakenPort(t *testing.T) {
	s, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if other, err := memredis.Listen(s.Addr()); err == nil {
		other.Close()
		t.Errorf("two servers listen on %s", s.Addr())
	}
}

// Close ends the server permanently. A driver that still exists, or a new one, must not find its
// data, nor bring it back.
func TestServerClose(t *testing.T) {
	for _, listening := range []bool{false, true} {
		s := memredis.New()
		if listening {
			var err error
			if s, err = memredis.Listen("127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		d := s.Driver()
		e := &ears{}
		sub := d.Subscriber(e)
		sub.Subscribe("a", false)
		eval(t, d, call(incr, "k"))
		s.Close()
		s.Close()
		_, err := d.Eval(t.Context(), call(incr, "k"))
		if err == nil {
			t.Error("a call on a closed server succeeded")
		}
		_, err = d.Eval(t.Context(), call(incr, "k"))
		wantClass(t, err, driver.NotSent)
		late := s.Driver()
		_, err = late.Eval(t.Context(), call(incr, "k"))
		wantClass(t, err, driver.NotSent)
		if c, err := s.Dial(); err == nil {
			c.Close()
			t.Error("a closed server accepts connections")
		}
		for _, c := range []interface{ Close() error }{sub, d, late} {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
}

func TestCloseUnusedServer(t *testing.T) {
	s := memredis.New()
	s.Close()
	if _, err := s.Dial(); err == nil {
		t.Error("a closed server accepts connections")
	}
}

// Servers share nothing.
func TestServersAreSeparate(t *testing.T) {
	for range 2 {
		s := memredis.New()
		defer s.Close()
		d := s.Driver()
		defer d.Close()
		if got := eval(t, d, call(incr, "k")).Int(); got != 1 {
			t.Errorf("a new server has the counter at %d", got-1)
		}
	}
}

// A lock is held for hours, in no real time, as in tests of applications.
func TestLockForHours(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server, _ driver.Driver) {
		client, rival := mortise.New(s.Driver(), nil), mortise.New(s.Driver(), nil)
		defer client.Close()
		defer rival.Close()
		hold, ctx, err := client.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Hour)
		if ctx.Err() != nil {
			t.Errorf("the lock was lost: %v", context.Cause(ctx))
		}
		if _, _, err := rival.Lock("job").TryLock(t.Context()); err == nil {
			t.Error("two have the lock")
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
