package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// final is an error that more waiting does not cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls ready until it returns nil or a final error, or the limit passes. A server in another
// process has no event to wait for.
func poll(ready func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	over := time.After(limit)
	for {
		err := ready()
		var f final
		if err == nil || errors.As(err, &f) {
			return err
		}
		select {
		case <-tick.C:
		case <-over:
			return fmt.Errorf("still not so after %v: %w", limit, err)
		}
	}
}

// await is poll for a state that the test needs.
func await(t testing.TB, state string, ready func() error) {
	t.Helper()
	if err := poll(ready); err != nil {
		t.Fatalf("waiting for %s: %v", state, err)
	}
}

// Eventually waits until ready returns nil, and fails the test if that takes longer than a
// minute. It is for states that only another process knows.
func Eventually(t testing.TB, state string, ready func() error) {
	t.Helper()
	await(t, state, ready)
}

func randN(n int) int { return rand.IntN(n) }

// lockedBuffer collects a server's output, which exec writes from a goroutine.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// tail returns the last n lines.
func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(b.buf.Bytes()), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
