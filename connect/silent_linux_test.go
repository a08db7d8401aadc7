package connect

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// A connection that the other side has closed reports that as an error, and sends no signal.
func TestBrokenConnectionSendsNoSignal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGPIPE, syscall.SIGUSR1)
	defer signal.Stop(signals)

	conn, err := dialer(t.Context(), false, new(lines))(t.Context(), listener.Addr().String(), &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	for err == nil { // the first may succeed: the other side has not refused it yet
		_, err = conn.Write([]byte("PING\r\n"))
	}
	if _, again := conn.Write([]byte("PING\r\n")); !errors.Is(again, syscall.EPIPE) {
		t.Errorf("a write ends with %v, and a second one with %v, want EPIPE", err, again)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if s := <-signals; s == syscall.SIGPIPE { // it would come before
		t.Error("it has sent SIGPIPE")
	}
}

// A write ends at its deadline if the other side does not read, and says how much was written.
func TestWriteThatIsNotRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := dialer(context.Background(), false, new(lines))(t.Context(), listener.Addr().String(), &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	type written struct {
		n   int
		err error
	}
	done := make(chan written)
	go func() {
		n, err := conn.Write(make([]byte, 64<<20))
		done <- written{n, err}
	}()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Read(make([]byte, 1)); err != nil { // some are written
		t.Fatal(err)
	}
	if err := conn.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	w := <-done
	var timeout net.Error
	if !errors.As(w.err, &timeout) || !timeout.Timeout() || w.n == 0 || w.n == 64<<20 {
		t.Errorf("%d bytes were written, with error %v, want some and a timeout", w.n, w.err)
	}
}
