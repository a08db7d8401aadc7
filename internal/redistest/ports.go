package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are below the range from which systems take those of outgoing connections: a client that
// keeps dialling a stopped server on a port of that range may at some time connect to itself.
//
// Each test process has a block of its own. What one of them gives up for a while, as a server that
// is stopped or a proxy that refuses connections, another one would take: then the clients of a test
// would come to the server of another test, which may delete what they have.
const (
	firstPort = 12000
	blocks    = 20
	half      = 500   // ports of a block, and as many at that distance above
	distance  = 10000 // of the second half: before Redis 7.0 the bus of a cluster has the port that is so far above
)

// ports is the block of this process.
var ports struct {
	sync.Mutex
	lock  *os.File // held until the process ends; nil before the first port is taken
	first int
	next  int
}

// nextPort returns a port of the block for which ok returns true, given it and the one in the other half. It
// returns the same port again only after all others.
func nextPort(most int, ok func(port int) bool) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.lock == nil {
		if err := takeBlock(); err != nil {
			return 0, err
		}
	}
	for range 2 * half {
		ports.next = (ports.next + 1) % (2 * half)
		port := ports.first + ports.next
		if ports.next >= half {
			port += distance - half
		}
		if ports.next < most && ok(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", ports.first, ports.first+half)
}

// takeBlock chooses a block that no other process has. The caller holds the mutex.
func takeBlock() error {
	start := randN(blocks)
	var errs []error
	for i := range blocks {
		n := (start + i) % blocks
		f, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("mortise-test-ports-%d", n)), os.O_RDWR|os.O_CREATE, 0o666)
		if err == nil {
			if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
				ports.lock, ports.first, ports.next = f, firstPort+n*half, randN(2*half)
				return nil
			}
			_ = f.Close()
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no block of ports is free: %w", errors.Join(errs...))
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ListenLow listens on a free loopback port of this process.
func ListenLow() (l net.Listener, err error) {
	_, err = nextPort(2*half, func(port int) bool {
		l, err = net.Listen("tcp", loopback(port))
		return err == nil
	})
	return l, err
}
