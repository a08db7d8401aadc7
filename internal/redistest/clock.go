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
	return single(t, []string{"LD_PRELOAD=" + library, "MORTISE_CLOCK=" + file}, args), &Clock{file}
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
