package locktest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Wait waits until the first jump is reported, which another goroutine does.
func (j *Jumps) Wait(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "the jump is told", func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if len(j.all) == 0 {
			return errors.New("it was not")
		}
		return nil
	})
}

// Jumps records the clock jumps that a client reports.
type Jumps struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (j *Jumps) Note(e *mortise.ClockError) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, e.Jump)
}

func (j *Jumps) Want(t *testing.T, within time.Duration, want ...time.Duration) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.EqualFunc(j.all, want, func(a, b time.Duration) bool { return (a - b).Abs() <= within }) {
		t.Errorf("jumps by %v were told, want %v", j.all, want)
	}
}
