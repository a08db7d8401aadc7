package drivertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// message is a message that a sink received.
type message struct{ channel, payload string }

// recorder is a driver.Sink that keeps what it receives.
type recorder struct {
	mu         sync.Mutex // guards the fields below
	subscribed map[string]int
	refused    map[string]error
	messages   []message
	changed    chan struct{} // closed and replaced at each event
}

func newRecorder() *recorder {
	return &recorder{subscribed: map[string]int{}, refused: map[string]error{}, changed: make(chan struct{})}
}

func (r *recorder) Message(channel, payload string) {
	r.event(func() { r.messages = append(r.messages, message{channel, payload}) })
}

func (r *recorder) Subscribed(channel string) { r.event(func() { r.subscribed[channel]++ }) }

func (r *recorder) Refused(channel string, err error) { r.event(func() { r.refused[channel] = err }) }

func (r *recorder) event(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until ok, called with the recorder locked, is true.
func (r *recorder) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		state := fmt.Sprintf("%d channels subscribed, %d refused, %d messages", len(r.subscribed), len(r.refused), len(r.messages))
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("no %s within %v (%s)", what, patience, state)
		}
	}
}

// awaitSubscribed waits until channel has been confirmed more than n times.
func (r *recorder) awaitSubscribed(t *testing.T, channel string, n int) {
	t.Helper()
	r.await(t, fmt.Sprintf("confirmation %d of %s", n+1, channel), func() bool { return r.subscribed[channel] > n })
}

func (r *recorder) awaitMessage(t *testing.T, channel, payload string) {
	t.Helper()
	r.await(t, fmt.Sprintf("message %.40q on %s", payload, channel), func() bool {
		for _, m := range r.messages {
			if m == (message{channel, payload}) {
				return true
			}
		}
		return false
	})
}

func (r *recorder) confirmations(channel string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subscribed[channel]
}

// received returns how often a message has arrived.
func (r *recorder) received(channel, payload string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.messages {
		if m == (message{channel, payload}) {
			n++
		}
	}
	return n
}

// subscriber opens d's subscriber, which is closed when t ends.
func subscriber(t *testing.T, d driver.Driver) (driver.Subscriber, *recorder) {
	t.Helper()
	r := newRecorder()
	sub := d.Subscriber(r)
	t.Cleanup(func() {
		if err := sub.Close(); err != nil {
			t.Errorf("close subscriber: %v", err)
		}
	})
	return sub, r
}
