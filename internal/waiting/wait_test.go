package waiting

import (
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
)

// A client asks for each of a few names about once a second, for very many five thousand times a second in all, and for
// each every five seconds at least.
func TestPollOfManyNames(t *testing.T) {
	for names, want := range map[int]time.Duration{
		1: time.Second, 4_999: time.Second, 5_000: time.Second, 5_001: time.Second + 200*time.Microsecond,
		10_000: 2 * time.Second, 24_999: 4999800 * time.Microsecond, 25_000: 5 * time.Second, 25_001: 5 * time.Second, 100_000: 5 * time.Second,
	} {
		c := &Queues{queues: make(map[lease.Place]*queue)}
		for i := range names {
			c.queues[lease.Place{Name: strconv.Itoa(i)}] = nil
		}
		if len(c.queues) != names {
			t.Fatalf("%d queues, want %d", len(c.queues), names)
		}
		if got := c.poll(); got != want {
			t.Errorf("of %d names each is asked for every %v, want %v", names, got, want)
		}
	}
}
