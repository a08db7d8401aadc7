package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

func TestServerScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/server*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	testscript.Run(t, testscript.Params{Files: files, RequireExplicitExec: true})
}

// startServer runs mortise server and returns it with the URL that its output suggests.
func startServer(t *testing.T, addr string) (s *session, url string) {
	t.Helper()
	s = begin(t, "", "server", "--addr", addr)
	s.await(t, "Ctrl-C ends it")
	said, rest, _ := strings.Cut(s.out.text(), "  mortise --redis ")
	url, _, ok := strings.Cut(rest, " run demo -- ")
	if host := strings.TrimPrefix(url, "redis://"); !ok || !strings.Contains(said, "listens on "+host+"; it is for trying things, not for production.") {
		t.Fatalf("the server said %q, want that it listens on %s, and not for production", s.out.text(), host)
	}
	return s, url
}

// Two clients exclude each other through the server, until a signal ends it without an error.
func TestServer(t *testing.T) {
	for addr, sig := range map[string]syscall.Signal{"127.0.0.1:0": syscall.SIGTERM, "localhost:0": syscall.SIGINT} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			s, url := startServer(t, addr)
			one, two := openClient(t, url), openClient(t, url)
			hold, _, err := one.Lock("job").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := two.Lock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("TryLock of what another holds: %v, want ErrLocked", err)
			}
			if err := hold.Unlock(); err != nil {
				t.Errorf("Unlock: %v", err)
			}
			if err := two.Lock("job").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Errorf("Do after the release: %v", err)
			}
			s.signal(t, sig)
			s.wantStatus(t, 0)
		})
	}
}

func openClient(t *testing.T, url string) *mortise.Client {
	t.Helper()
	d, err := connect.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(d, nil)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A port that is in use causes an error with a hint.
func TestServerPortInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	addr := other.Addr().String()
	var stdout, stderr bytes.Buffer
	a := &app{stdout: newOutput(&stdout), stderr: &stderr, getenv: func(string) string { return "" }}
	if code := a.main([]string{"server", "--addr", addr}); code != exitUnreachable {
		t.Errorf("exit code %d, want %d", code, exitUnreachable)
	}
	for _, want := range []string{
		"mortise: cannot listen on " + addr + ": ",
		"Another server listens there. If it is a Redis, use it: mortise --redis redis://" + addr + " run NAME -- CMD\n",
		"Otherwise choose another port: mortise server --addr 127.0.0.1:0\n",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error lacks %q:\n%s", want, &stderr)
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("standard output: %q, want nothing", &stdout)
	}
}
