package script_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/leaks"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// The key of most tests, and its holders. Java's holders are a UUID and
// any 64-bit number, those of a transaction have a third part.
const (
	job   = "job"
	me    = "0b5f3d1c-7c0e-8d2e-9a57-1f0e6a0c9b11:1"
	mine2 = "0b5f3d1c-7c0e-8d2e-9a57-1f0e6a0c9b11:2"
	java  = "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57"
	javaN = "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:-9223372036854775808"
	javaT = "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57:7b1c6f0e"
)

var channel = keyspace.LockChannel(job)

// world is a Redis to run scripts on: the embedded one in virtual time, or a
// real one. Both must behave alike.
type world struct {
	real     bool
	began    time.Time
	dial     func() net.Conn
	embedded driver.Driver // runs the scripts; nil if the Redis is real
	*wire
}

// everywhere runs f as two tests: with the embedded Redis in a bubble, and
// with server. The latter takes the build tag server.
func everywhere(t *testing.T, server *redistest.Server, f func(t *testing.T, w *world)) {
	t.Helper()
	parallel(t)
	t.Run("memredis", func(t *testing.T) { virtually(t, f) })
	if proof || !isTimely(t) {
		onServer(t, "redis-server", server, f)
	}
}

// inTime says that t shows what must happen within a second or two. In virtual time it always does; with a
// real server, only make proof shows it, since a busy machine takes longer.
func inTime(t *testing.T) { timely.Store(t.Name(), true) }

var timely sync.Map // of the names of such tests

// isTimely reports whether t, or a test that t belongs to, is one for [inTime].
func isTimely(t *testing.T) bool {
	for name := t.Name(); ; {
		if _, is := timely.Load(name); is {
			return true
		}
		i := strings.LastIndex(name, "/")
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

// virtually runs f with the embedded Redis in a bubble.
func virtually(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		d := s.Driver()
		defer d.Close()
		f(t, newWorld(t, d, func() net.Conn {
			c, err := s.Dial()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}))
	})
}

// newWorld returns a world whose scripts embedded runs; if it is nil, a real server.
func newWorld(t *testing.T, embedded driver.Driver, dial func() net.Conn) *world {
	w := &world{real: embedded == nil, began: time.Now(), dial: dial, embedded: embedded}
	w.wire = w.connect(t)
	return w
}

// connect returns one more connection.
func (w *world) connect(t *testing.T) *wire {
	c := newWire(w.dial(), w.embedded)
	t.Cleanup(func() { c.net.Close() })
	return c
}

// near reports whether a TTL is what it was set to. Virtual time stands still
// between two commands; real time may pass, but no TTL ever grows, and the
// tests choose TTLs that lie a minute apart.
func (w *world) near(got, want time.Duration) bool {
	if !w.real || want < 0 {
		return got == want
	}
	return got <= want && got > want-time.Minute
}

// hold puts a lock there, as Redisson or mortise would: pairs of owner and
// count. A negative TTL means none.
func (w *world) hold(t *testing.T, key string, ttl time.Duration, fields ...string) {
	t.Helper()
	w.must(t, append([]string{"HSET", key}, fields...)...)
	if ttl >= 0 {
		w.must(t, "PEXPIRE", key, fmt.Sprint(ttl.Milliseconds()))
	}
}

// dump shows the content of key, without its TTL.
func (w *world) dump(t *testing.T, key string) string {
	t.Helper()
	switch kind := w.must(t, "TYPE", key).Str(); kind {
	case "none":
		return "nothing"
	case "string":
		return "string " + w.must(t, "GET", key).Str()
	case "list":
		return "list " + w.must(t, "LRANGE", key, "0", "-1").String()
	case "hash":
		v := w.must(t, "HGETALL", key)
		fields := map[string]string{}
		for i := 0; i < v.Len(); i += 2 {
			fields[v.At(i).Str()] = v.At(i + 1).Str()
		}
		var b strings.Builder
		for _, f := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&b, " %s=%s", f, fields[f])
		}
		return "hash" + b.String()
	default:
		return kind
	}
}

// ttl returns the rest of key's TTL, -1 if it has none, -2 if there is no
// such key.
func (w *world) ttl(t *testing.T, key string) time.Duration {
	t.Helper()
	if ms := w.must(t, "PTTL", key).Int(); ms >= 0 {
		return time.Duration(ms) * time.Millisecond
	} else {
		return time.Duration(ms)
	}
}

func (w *world) wantTTL(t *testing.T, key string, want time.Duration) {
	t.Helper()
	if got := w.ttl(t, key); !w.near(got, want) {
		t.Errorf("the TTL of %s is %v, want %v", key, got, want)
	}
}

func (w *world) wantDump(t *testing.T, key, want string) {
	t.Helper()
	if got := w.dump(t, key); got != want {
		t.Errorf("under %s lies %s, want %s", key, got, want)
	}
}

// lapse lets the TTL of key run out.
func (w *world) lapse(t *testing.T, key string) {
	t.Helper()
	left := w.ttl(t, key)
	if left < 0 {
		t.Fatalf("%s has no TTL that could run out", key)
	}
	if !w.real {
		time.Sleep(left + time.Millisecond) // virtual
		return
	}
	w.must(t, "PEXPIRE", key, "1")
	redistest.Eventually(t, key+" expires", func() error {
		if n := w.must(t, "EXISTS", key).Int(); n != 0 {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

// subscriber is a connection that is subscribed to a channel. It reads all the time:
// a pipe has no buffer, so the embedded Redis waits for its subscribers.
type subscriber struct {
	world    *world
	channel  string
	sharded  bool
	messages chan string
}

// last is the message after which a subscriber knows that it has received everything.
const last = "the last one"

func (w *world) listen(t *testing.T, channel string, sharded bool) *subscriber {
	t.Helper()
	return w.subscribe(t, channel, sharded, keyspace.Heeds(channel))
}

// listenAsRedisson is listen for a subscriber that poses as a thread of Redisson's.
func (w *world) listenAsRedisson(t *testing.T, channel string, sharded bool) *subscriber {
	t.Helper()
	return w.subscribe(t, channel, sharded)
}

// subscribe listens to a channel, and subscribes to others on which nothing is
// published.
func (w *world) subscribe(t *testing.T, channel string, sharded bool, silent ...string) *subscriber {
	t.Helper()
	e := &subscriber{world: w, channel: channel, sharded: sharded, messages: make(chan string, 1000)}
	c := newWire(w.dial(), w.embedded)
	for _, channel := range append(silent, channel) {
		c.must(t, e.command("SUBSCRIBE"), channel)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(e.messages)
		for {
			v, err := c.receive()
			if err != nil {
				return // closed below
			}
			e.messages <- v.At(2).Str()
		}
	})
	t.Cleanup(func() {
		c.net.Close()
		reading.Wait()
	})
	return e
}

func (e *subscriber) command(name string) string {
	if e.sharded {
		return "S" + name
	}
	return name
}

// received returns all messages since the last call.
func (e *subscriber) received(t *testing.T) []string {
	t.Helper()
	e.world.must(t, e.command("PUBLISH"), e.channel, last)
	received := []string{}
	for m := range e.messages {
		if m == last {
			return received
		}
		received = append(received, m)
	}
	t.Fatalf("the connection that listens to %s ended after %q", e.channel, received)
	return nil
}

func (e *subscriber) want(t *testing.T, want ...string) {
	t.Helper()
	if got := e.received(t); !slices.Equal(got, want) {
		t.Errorf("on %s came %q, want %q", e.channel, got, want)
	}
}

// lossy is a driver that loses every reply, after the script has run.
type lossy struct{ driver.Driver }

func (d lossy) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := d.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (d lossy) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.Batch(ctx, calls)
	for i := range results {
		results[i] = driver.Result{Err: &driver.Error{Class: driver.Unknown, Err: errLost}}
	}
	return results
}
