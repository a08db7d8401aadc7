//go:build proof

package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}

// ended fails the test if a process of d is left, or its directory.
func ended(t *testing.T, d *demonstration) {
	t.Helper()
	if len(d.processes) != d.Workers {
		t.Errorf("%d processes were started, want %d", len(d.processes), d.Workers)
	}
	for _, p := range d.processes {
		if p.cmd.ProcessState == nil {
			t.Errorf("worker-%d is still there", p.number)
		}
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s: %v, want none", d.dir, err)
	}
}

// A file that was changed from outside is not exact, in either direction.
func TestDemoTampered(t *testing.T) {
	t.Parallel()
	out := &watched{}
	d := newDemo(out)
	defer func() { _ = os.RemoveAll(d.dir) }()
	err := d.perform(t.Context())
	d.end()
	if err != nil {
		t.Fatalf("perform: %v\n%s", err, out)
	}
	for _, test := range []struct {
		by    int
		exact bool
	}{{0, true}, {-1, false}, {+2, false}, {-1, true}} {
		tamper(t, d, test.by)
		err := d.conclude()
		var verdict *VerdictError
		if test.exact && err != nil || !test.exact && !errors.As(err, &verdict) {
			t.Errorf("after adding %+d: %v; want exact: %v\n%s", test.by, err, test.exact, out)
		}
	}
}

func tamper(t *testing.T, d *demonstration, by int) {
	t.Helper()
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := readCounter(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCounter(f, n+by); err != nil {
		t.Fatal(err)
	}
}

var errInterrupted = errors.New("interrupted")

// The end of its context ends it at any time, with its workers, and it leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	for _, when := range []string{"An embedded Redis", "asks for the lock", "stops right there", "after the kill", "tells the workers"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			out := &watched{online: func(line string) {
				if strings.Contains(line, when) {
					cancel(errInterrupted)
				}
			}}
			d := newDemo(out)
			err := d.run(ctx)
			if !errors.Is(err, errInterrupted) {
				t.Errorf("error: %v, want why its context has ended\n%s", err, out)
			}
			if strings.Contains(out.String(), "lost updates") {
				t.Errorf("what was interrupted gave a result:\n%s", out)
			}
			if when == "An embedded Redis" {
				d.Workers = len(d.processes) // not all may have been started
			}
			ended(t, d)
		})
	}
}

// A worker that dies without having been killed by the demonstration makes it fail, with the
// worker's own words.
func TestDemoWorkerFails(t *testing.T) {
	t.Parallel()
	var d *demonstration
	out := &watched{}
	out.online = func(line string) {
		if strings.Contains(line, "has written 1") {
			d.server.Close() // the next request fails
		}
	}
	d = newDemo(out)
	err := d.run(t.Context())
	if err == nil || !regexp.MustCompile(`^worker-[123] \(pid \d+\) failed: exit status \d+: mortise: .*demo:counter`).MatchString(err.Error()) {
		t.Errorf("error: %v, want that of a worker that cannot reach Redis\n%s", err, out)
	}
	ended(t, d)
}

// A demonstration that does not end in time is given up.
func TestDemoIsBounded(t *testing.T) {
	t.Parallel()
	canary.Judge(t, demoIsBounded)
}

func demoIsBounded(t *testing.T, b *canary.Bounds) {
	var d *demonstration
	out := &watched{}
	stopped := false
	out.online = func(line string) {
		if !stopped && strings.Contains(line, "asks for the lock") {
			stopped = true
			if err := d.processes[1].order("mistake"); err != nil { // not understood, so ignored
				t.Error(err)
			}
			d.processes[1].orders = nowhere{} // later orders do not arrive
		}
	}
	d = newDemo(out)
	begun := time.Now()
	err := d.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not over after 9s") {
		t.Errorf("error: %v, want that it took too long\n%s", err, out)
	}
	b.Within("the end of a demonstration that hangs", time.Since(begun), 20*time.Second)
	ended(t, d)
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func (nowhere) Close() error { return nil }
