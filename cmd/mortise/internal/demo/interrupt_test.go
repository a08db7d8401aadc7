//go:build unix

package demo

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
)

// A terminal interrupts all processes at once. A worker that ends of that before the parent has
// noticed is no failure; one that was interrupted alone is.
func TestInterruptEndsAWorkerFirst(t *testing.T) {
	for _, signal := range []string{"INT", "HUP"} {
		cmd := exec.Command("sh", "-c", "kill -"+signal+" $$")
		err := cmd.Run()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			d, interrupted := newDemo(new(watched)), errors.New("interrupted")
			p := &process{number: 1, cmd: cmd, err: err}
			result := make(chan error)
			go func() { result <- d.ended(ctx, p) }()
			synctest.Wait()
			cancel(interrupted)
			if err := <-result; !errors.Is(err, interrupted) {
				t.Errorf("SIG%s to all: %v, want the cause of the context's end", signal, err)
			}
			if err := d.ended(t.Context(), p); err == nil || !strings.Contains(err.Error(), "failed: signal: ") {
				t.Errorf("SIG%s to a worker: %v, want that it has failed", signal, err)
			}
		})
	}
}
