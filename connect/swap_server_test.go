//go:build server

package connect

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The roles of two servers behind one address are swapped, and the former master keeps its connections. The client leaves
// them, and its waiters hear of releases on the new master.
func TestSwapBehindOneAddress(t *testing.T) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	proxy := redistest.NewProxy(t, master.Addr())
	d, err := Open(t.Context(), "redis://"+proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(d, nil)
	defer c.Close()
	held, _, err := c.Lock("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	busy, err := Open(t.Context(), "redis://"+replica.Addr())
	if err != nil {
		t.Fatal(err)
	}
	other := mortise.New(busy, nil)
	defer other.Close()

	master.AwaitReplicas(t, 1)
	replica.Must(t, "REPLICAOF", "NO", "ONE")
	host, port, err := net.SplitHostPort(replica.Addr())
	if err != nil {
		t.Fatal(err)
	}
	master.Must(t, "REPLICAOF", host, port)
	hold, _, err := other.Lock("busy").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Retarget(replica.Addr())
	redistest.Eventually(t, "the client has left the former master", func() error {
		if _, _, err := c.Lock("free").TryLock(t.Context()); err != nil && !errors.Is(err, mortise.ErrLocked) {
			return err
		}
		return nil
	})
	got := make(chan error, 1)
	go func() {
		_, _, err := c.Lock("busy").Lock(t.Context())
		got <- err
	}()
	redistest.Eventually(t, "it waits on the new master", func() error {
		if n := replica.Subscribers(t); n == 0 {
			return fmt.Errorf("%d subscribers", n)
		}
		return nil
	})
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if err := held.Unlock(); err != nil {
		t.Errorf("the lock from before: %v, want that it is held", err)
	}
}
