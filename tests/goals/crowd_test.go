package goals

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/resp"
)

// A process holds very many locks next to thousands of goroutines that have work to do: none is lost.
func TestManyHoldsOfABusyProcess(t *testing.T) { canary.Judge(t, manyHoldsOfABusyProcess) }

func manyHoldsOfABusyProcess(t *testing.T, b *canary.Bounds) {
	locks, busy, lasts := times(1000, 100_000), times(200, 5000), time.Duration(times(1, 60))*time.Second
	const lease = 30 * time.Second
	s := redistest.Single(t)
	c := mortise.New(dialers["rueidis"](t, s.Addr()), nil)
	defer c.Close()
	held := make([]*mortise.Hold, locks)
	inParallel(locks, func(i int) { held[i], _, _ = c.Lock(fmt.Sprint("job ", i)).Lock(t.Context()) })
	var all sync.WaitGroup
	var stop atomic.Bool
	for range busy {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				for i := range 2000 {
					n += i
				}
				time.Sleep(25 * time.Millisecond)
			}
		})
	}
	least := lease
	for begin := time.Now(); time.Since(begin) < lasts; time.Sleep(200 * time.Millisecond) {
		for _, hold := range held {
			least = min(least, time.Until(hold.Until()))
		}
	}
	stop.Store(true)
	all.Wait()
	lost := 0
	for _, hold := range held {
		if hold == nil {
			t.Fatal("a lock was not acquired")
		}
		if !hold.Valid() {
			lost++
			least = min(least, time.Until(hold.Until()))
		}
	}
	t.Logf("%d locks for %v next to %d busy goroutines: %d lost, trusted for %v more at least", locks, lasts, busy, lost, least)
	b.Within("the next renewal of one of many locks", lease-least, lease/2)
}

// Others send a waiter as many messages as they can: it asks Redis no more than 200 times a second, gets
// nothing that it has not been granted, and leaves a CPU to others.
func TestFloodOfMessages(t *testing.T) {
	seconds := times(1, 10)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		s := redistest.Single(t)
		holder, waiter := dial(s.Addr()), dial(s.Addr())
		block, _, err := holder.Lock("job").Lock(t.Context())
		must(t, err)
		l := holder.CountDownLatch("latch")
		_, err = l.TrySetCount(t.Context(), 1)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wrong atomic.Int64
		var waits sync.WaitGroup
		for _, wait := range []func() error{
			func() error { _, _, err := waiter.Lock("job").Lock(ctx); return err },
			func() error { return waiter.CountDownLatch("latch").Wait(ctx) },
		} {
			waits.Go(func() {
				if wait() == nil {
					wrong.Add(1)
				}
			})
		}
		var channels []string
		redistest.Eventually(t, "both wait", func() error {
			channels = nil
			for _, channel := range s.Must(t, "PUBSUB", "CHANNELS").([]any) {
				channels = append(channels, channel.(string))
			}
			if len(channels) < 2 {
				return fmt.Errorf("%q", channels)
			}
			return nil
		})
		before, cpu := scripts(t, s), used(t)
		begin := time.Now()
		sent := flood(t, s.Addr(), channels, time.Duration(seconds)*time.Second)
		asked, lasted, cpu := scripts(t, s)-before, time.Since(begin), used(t)-cpu
		t.Logf("%d messages a second to %d channels: %d attempts a second of both waiters, %.2f CPUs with those of the flood", sent/seconds, len(channels),
			asked/seconds, cpu.Seconds()/float64(seconds))
		if most := int(2 * 220 * lasted.Seconds()); asked > most {
			t.Errorf("%d attempts in %v, want %d at most", asked, lasted, most)
		}
		cancel()
		waits.Wait()
		if wrong.Load() > 0 {
			t.Errorf("%d were let through", wrong.Load())
		}
		must(t, block.Unlock())
	})
}

// scripts returns how many scripts the server has run.
func scripts(t *testing.T, s *redistest.Server) (n int) {
	for _, command := range []string{"evalsha", "eval"} {
		text, err := s.Info("commandstats", "cmdstat_"+command)
		must(t, err)
		var calls int
		if _, err := fmt.Sscanf(text, "calls=%d", &calls); err == nil {
			n += calls
		}
	}
	return n
}

// flood publishes as many messages as it can, for some time, and returns how many.
func flood(t *testing.T, addr string, channels []string, lasts time.Duration) (sent int) {
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	const batch = 500
	var request []byte
	for i := range batch {
		text := []string{"0", "1", "?", "~", "x 1", strings.Repeat("9", 30)}[i%6]
		request = resp.Append(request, "PUBLISH", channels[i%len(channels)], text)
	}
	replies := bufio.NewReader(conn)
	for end := time.Now().Add(lasts); time.Now().Before(end); sent += batch {
		_, err := conn.Write(request)
		must(t, err)
		for range batch {
			_, err := replies.ReadSlice('\n')
			must(t, err)
		}
	}
	return sent
}

// used returns the CPU time of this process.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
