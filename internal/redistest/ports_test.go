//go:build server

package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Another test process has other ports, and a port that was given up comes again only after all others.
func TestPortsBelongToOneProcess(t *testing.T) {
	if os.Getenv("MORTISE_TEST_PORT") != "" {
		fmt.Println("port", FreePort(t))
		return
	}
	mine := make(map[string]bool)
	for range 2 * half {
		mine[fmt.Sprint(FreePort(t))] = true
	}
	if len(mine) < 2*half-200 { // others may listen on some
		t.Errorf("%d different ports, want nearly %d", len(mine), 2*half)
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestPortsBelongToOneProcess$", "-test.v")
		cmd.Env = append(os.Environ(), "MORTISE_TEST_PORT=1")
		out, err := cmd.CombinedOutput()
		_, rest, ok := strings.Cut(string(out), "port ")
		port, _, _ := strings.Cut(rest, "\n")
		if err != nil || !ok || mine[port] {
			t.Errorf("another process has the port %q: %v\n%s", port, err, out)
		}
	}
}

// A server whose port another one has taken at the last moment is not mistaken for that one.
func TestServerThatAnswersIsOurs(t *testing.T) {
	other := Single(t)
	s := &Server{port: other.port, dir: t.TempDir(), args: []string{"--port", fmt.Sprint(other.port), "--bind", "127.0.0.1"}}
	if err := s.start(); err == nil {
		s.Stop()
		t.Fatal("it was started on a port that another server has")
	}
	if l, err := net.Listen("tcp", other.Addr()); err == nil {
		_ = l.Close()
		t.Error("nobody listens any more")
	}
}
