package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deaf is a driver that answers no script.
type deaf struct {
	driver.Driver
	err error
}

func (d deaf) Eval(context.Context, driver.Call) (driver.Value, error) {
	return driver.Value{}, d.err
}

func TestRunWithoutReplies(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	denied := &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
	c := config(server, &strings.Builder{})
	c.Open = func(context.Context) (driver.Driver, error) { return deaf{server.Driver(), denied}, nil }
	_, err := Run(t.Context(), c)
	var trip *RoundTripError
	if !errors.As(err, &trip) || driver.ClassOf(err) != driver.Denied {
		t.Errorf("error: %v, want that of the round trip", err)
	}
	refused := errors.New("refused")
	c.Open = func(context.Context) (driver.Driver, error) { return nil, refused }
	if _, err := Run(t.Context(), c); !errors.Is(err, refused) {
		t.Errorf("error: %v, want that of opening", err)
	}
}

// Two holders of one lock are counted in every load, and the errors read well.
func TestWhatIsReported(t *testing.T) {
	r := Report{One: Contended{Overlaps: 2}, Between: Contended{Overlaps: 3}}
	if n := r.Overlaps(); n != 5 {
		t.Errorf("%d overlaps, want 5", n)
	}
	if got, want := (&NoLockError{Within: 2437 * time.Millisecond}).Error(), "no lock could be taken within 2.4s"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if got, want := Window(5*time.Second), 600*time.Millisecond; got != want {
		t.Errorf("of 5s a load is measured for %v, want %v", got, want)
	}
}

// quiet is a driver whose subscriber does nothing.
type quiet struct{ driver.Driver }

func (q quiet) Subscriber(driver.Sink) driver.Subscriber { return quietSubscriber{} }

type quietSubscriber struct{ driver.Subscriber }

func (quietSubscriber) Subscribe(string, bool) {}

func (quietSubscriber) Unsubscribe(string, bool) {}

// Every script counts, and so does every change of a subscription. In a batch, each script counts,
// and each of its keys.
func TestCounted(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	var sent counter
	d := counted{Driver: quiet{server.Driver()}, sent: &sent}
	defer d.Close()
	call := driver.Call{Script: ping, Keys: []string{"a", "b"}}
	if _, err := d.Eval(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Batch(t.Context(), []driver.Call{call, call}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if commands, batches, batched := sent.commands.Load(), sent.batches.Load(), sent.batched.Load(); commands != 3 || batches != 2 || batched != 4 {
		t.Errorf("%d commands, %d sent together, %d keys of those; want 3, 2 and 4", commands, batches, batched)
	}
	subscriber := d.Subscriber(nil)
	subscriber.Subscribe("channel", false)
	subscriber.Unsubscribe("channel", false)
	if commands := sent.commands.Load(); commands != 5 {
		t.Errorf("%d commands after a subscription and its end, want 5", commands)
	}
}

func TestField(t *testing.T) {
	const text = "# Server\r\nredis_version:7.4.1\r\nredis_version_old:6\r\nempty:\r\n"
	for name, want := range map[string]string{"redis_version": "7.4.1", "empty": "", "version": "", "redis": ""} {
		if got := field(text, name); got != want {
			t.Errorf("field %s is %q, want %q", name, got, want)
		}
	}
}

// config is a short load test of an embedded server, whose lines go to out.
func config(server *memredis.Server, out *strings.Builder) Config {
	return Config{
		Server: "embedded", Duration: time.Second, Concurrency: MinConcurrency, Prefix: "test:",
		Open:  func(context.Context) (driver.Driver, error) { return server.Driver(), nil },
		Say:   func(format string, args ...any) { fmt.Fprintf(out, "say "+format+"\n", args...) },
		Print: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
	}
}
