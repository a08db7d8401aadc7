//go:build server && unix

package fencing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A process that writes as fast as it can, and never checks its context, is frozen past its lease,
// while another process acquires the lock and writes. After it wakes, none of its writes is
// admitted. With each guarded write it does one without a guard; some of these do go through, or
// the test would show nothing.
func TestRealFrozenWriterIsRefused(t *testing.T) {
	s := redistest.Single(t)
	d := realDriver(t, s.Addr())
	g := fencing.NewGuard(realDriver(t, s.Addr()))
	defer g.Close()
	c := mortise.New(realDriver(t, s.Addr()), nil)
	defer c.Close()
	refused := 0
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperFrozenWriter$")
		cmd.Env = append(os.Environ(), "MORTISE_TEST_ADDR="+s.Addr())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		says := func(prefix string) string {
			t.Helper()
			for lines.Scan() {
				if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
					return rest
				}
			}
			t.Fatalf("the writer ended without saying %q", prefix)
			return ""
		}
		says("writing")
		time.Sleep(time.Duration(round) * 300 * time.Microsecond) // anywhere in a write
		must(t, cmd.Process.Signal(syscall.SIGSTOP))
		hold, _, err := c.FencedLock("job").Lock(t.Context()) // as soon as the lease has ended
		must(t, err)
		token := fmt.Sprint(hold.Token())
		_, err = g.Run(t.Context(), "job", hold.Token(), appendLog, []string{"log"}, token)
		must(t, err)
		s.Must(t, "RPUSH", "unguarded", token)
		must(t, cmd.Process.Signal(syscall.SIGCONT))
		var n int
		_, err = fmt.Sscan(says("refused: "), &n)
		must(t, err)
		refused += n
		if err := cmd.Wait(); err != nil {
			t.Errorf("the writer: %v", err)
		}
		must(t, hold.Unlock())
	}
	log := readLog(t, d, "log")
	if !slices.IsSorted(log) {
		t.Errorf("a stale write was admitted: %v", log)
	}
	if unguarded := readLog(t, d, "unguarded"); slices.IsSorted(unguarded) {
		t.Errorf("no write without a guard came late: nothing was shown")
	}
	t.Logf("%d guarded writes in order, %d refused", len(log), refused)
	if refused < 5*100 {
		t.Errorf("%d writes were refused, want 100 in each round", refused)
	}
}

// TestHelperFrozenWriter is the process that TestRealFrozenWriterIsRefused
// freezes.
func TestHelperFrozenWriter(t *testing.T) {
	addr := os.Getenv("MORTISE_TEST_ADDR")
	if addr == "" {
		return // not requested
	}
	g := fencing.NewGuard(realDriver(t, addr))
	defer g.Close()
	c := mortise.New(realDriver(t, addr), &mortise.Options{TTL: 500 * time.Millisecond})
	defer c.Close()
	plain := realDriver(t, addr)
	hold, _, err := c.FencedLock("job").Lock(t.Context())
	must(t, err)
	token := fmt.Sprint(hold.Token())
	begin := time.Now()
	for refused, written := 0, 0; refused < 100; {
		_, err := g.Run(context.Background(), "job", hold.Token(), appendLog, []string{"log"}, token)
		switch {
		case err == nil:
			written++
		case errors.Is(err, fencing.ErrStale):
			refused++
		default:
			t.Fatal(err)
		}
		do(t, plain, `return redis.call('rpush', KEYS[1], '`+token+`')`, "unguarded")
		if written == 5 {
			fmt.Println("writing")
		}
		if refused == 100 {
			fmt.Println("refused:", refused)
		}
		if time.Since(begin) > 60*time.Second {
			t.Fatal("nobody froze this process")
		}
	}
	if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}
