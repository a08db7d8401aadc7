package mortiseotel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/mortiseotel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// holderOf is the variable of the environment that makes the test program the holder in the Redis at that
// address.
const holderOf = "MORTISEOTEL_HOLDER_OF"

// beHolder acquires a lock for each line that it reads, writes the traceparent of the hold, and releases it at
// the next line.
func beHolder(addr string) int {
	spans := tracetest.NewSpanRecorder()
	observer := mortiseotel.New(mortiseotel.WithHoldSpans(true), mortiseotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "holder:", err)
		return 1
	}
	d, err := connect.Open(context.Background(), "redis://"+addr)
	if err != nil {
		return fail(err)
	}
	c := mortise.New(d, &mortise.Options{Observer: observer})
	defer c.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		hold, _, err := c.Lock("deploy").Lock(context.Background())
		if err != nil {
			return fail(err)
		}
		begun := spans.Started()
		at := begun[len(begun)-1]
		fmt.Printf("%s %s %s\n", at.Name(), at.SpanContext().TraceID(), at.SpanContext().SpanID())
		lines.Scan()
		if err := hold.Unlock(); err != nil {
			return fail(err)
		}
	}
	return 0
}

// holder is another process that holds the lock.
type holder struct {
	t       *testing.T
	in      io.WriteCloser
	out     *bufio.Reader
	program *exec.Cmd
}

func startHolder(t *testing.T, addr string) *holder {
	t.Helper()
	h := &holder{t: t, program: exec.Command(os.Args[0])}
	h.program.Env, h.program.Stderr = append(os.Environ(), holderOf+"="+addr), os.Stderr
	out, err := h.program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	if h.in, err = h.program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.in.Close()
		if err := h.program.Wait(); err != nil {
			t.Errorf("the holder: %v", err)
		}
	})
	return h
}

// acquire has it acquire the lock, and returns its span.
func (h *holder) acquire() (name, traceID, spanID string) {
	h.t.Helper()
	h.goOn()
	if _, err := fmt.Fscanln(h.out, &name, &traceID, &spanID); err != nil {
		h.t.Fatal(err)
	}
	return name, traceID, spanID
}

// goOn has it acquire or release the lock.
func (h *holder) goOn() {
	if _, err := fmt.Fprintln(h.in); err != nil {
		h.t.Error(err)
	}
}

// A waiter links to the span of its holder in another process, which it has learned from Redis.
func TestLinkToAnotherProcess(t *testing.T) {
	server := redistest.Single(t)
	h := startHolder(t, server.Addr())
	d, err := connect.Open(t.Context(), "redis://"+server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	m := newTelemetry(t)
	c := mortise.New(d, &mortise.Options{Observer: m})
	defer c.Close()
	for wait := 700 * time.Millisecond; ; wait *= 2 { // a busy machine may need longer to read the record
		name, traceID, spanID := h.acquire()
		if name != "dlock.hold" {
			t.Fatalf("the last span of the holder is %s", name)
		}
		release := time.AfterFunc(wait, h.goOn)
		hold, _, err := c.Lock("deploy").Lock(t.Context())
		if err != nil {
			release.Stop()
			t.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		spans := m.named("dlock.acquire")
		links := spans[len(spans)-1].Links()
		if len(links) == 0 && wait < time.Minute {
			continue
		}
		if len(links) != 1 {
			t.Fatalf("%d links after a wait of %v, want one", len(links), wait)
		}
		to := links[0].SpanContext
		if to.TraceID().String() != traceID || to.SpanID().String() != spanID || !to.IsRemote() || !to.IsSampled() {
			t.Errorf("the waiter links to %v %v, want the hold of the other process, %s %s", to.TraceID(), to.SpanID(), traceID, spanID)
		}
		break
	}
	m.wantNothingHeld()
}
