//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
)

// peerEnv carries the orders of a Go process of its own: the test binary,
// started again. Only a process can be killed or frozen as a whole.
const peerEnv = "MORTISE_INTEROP_PEER"

// peerOrders is what a peer does: take the lock, say so, hold it until the end
// of its standard input, and say so if the lock is lost before.
type peerOrders struct {
	Transport string
	Addr      string
	Kind      string // as kindOf takes it
	Name      string
}

// The words with which a peer begins its lines.
const (
	peerHolds = "holds " // and its owner
	peerLost  = "lost "  // and the cause
)

// runPeer is the main function of a peer.
func runPeer() int {
	if err := holdAsOrdered(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func holdAsOrdered() error {
	var orders peerOrders
	if err := json.Unmarshal([]byte(os.Getenv(peerEnv)), &orders); err != nil {
		return fmt.Errorf("%s: %w", peerEnv, err)
	}
	client, closeAll, err := openClient(orders.Transport, orders.Addr, false, mortise.Options{TTL: shortLease})
	if err != nil {
		return err
	}
	hold, held, err := kindOf(orders.Kind).open(client, orders.Name, mortise.LockOptions{}).Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println(peerHolds + hold.Owner())
	context.AfterFunc(held, func() { fmt.Println(peerLost + context.Cause(held).Error()) })
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return closeAll()
}

// peer is a Go process that holds a lock.
type peer struct {
	*process
	owner string
	lines <-chan string
}

// startPeer starts a Go process and returns when it holds the lock.
func (w *world) startPeer(t testing.TB, name string) *peer {
	t.Helper()
	p := w.startWaitingPeer(t, name)
	p.owner = p.says(t, peerHolds)
	return p
}

// startWaitingPeer is startPeer that does not wait for the lock.
func (w *world) startWaitingPeer(t testing.TB, name string) *peer {
	t.Helper()
	orders, err := json.Marshal(peerOrders{Transport: w.transport, Addr: w.redis().Addr(), Kind: w.kind.object, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+string(orders))
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the peer that the test has ended
		t.Fatal(err)
	}
	stdout, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = pipe
	lines := make(chan string, 4) // more than a peer ever says
	p := &peer{process: startProcess(t, cmd), lines: lines}
	_ = pipe.Close() // the child has its own copy
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer close(lines)
		defer stdout.Close()
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		p.kill()
		<-reading
	})
	return p
}

// says waits for the peer's next line, which must begin with the given word,
// and returns the rest of it.
func (p *peer) says(t testing.TB, word string) string {
	t.Helper()
	line := receive(t, p.lines, "the Go process's word that it "+strings.TrimSpace(word))
	rest, ok := strings.CutPrefix(line, word)
	if !ok {
		t.Fatalf("the Go process says %q, want %q", line, word)
	}
	return rest
}
