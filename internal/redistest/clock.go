package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed shim/clock.c
var shim []byte

// Clock is the adjustable clock of one server.
type Clock struct{ file string }

// Clocked starts a server like [Single] whose clock can be set. It needs a C compiler, and a
// redis-server that takes the time from the C library.
func Clocked(t testing.TB, args ...string) (*Server, *Clock) {
	t.Helper()
	env, clock := clocked(t)
	return single(t, env, args), clock
}

// ClockedCluster starts a cluster like [Cluster], without replicas, of which the clock of the first master can be
// set. It needs what [Clocked] needs.
func ClockedCluster(t testing.TB, args ...string) (*ClusterSet, *Clock) {
	t.Helper()
	env, clock := clocked(t)
	return cluster(t, 0, env, args), clock
}

// clocked returns a clock, and the environment of the server whose clock it is.
func clocked(t testing.TB) (env []string, clock *Clock) {
	t.Helper()
	dir := t.TempDir()
	source, library, file := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	for name, text := range map[string][]byte{source: shim, file: make([]byte, 8)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("cannot build what sets the clock: %v\n%s", err, out)
	}
	return []string{"LD_PRELOAD=" + library, "MORTISE_CLOCK=" + file}, &Clock{file}
}

// Set makes the clock run ahead by this many whole seconds, at once.
func (c *Clock) Set(t testing.TB, by time.Duration) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0) // not truncated: the server reads it all the time
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second)), 0); err != nil {
		t.Fatal(err)
	}
}
