//go:build interop

package interop

import (
	"os"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// host is what a world stands on. To start one takes seconds of CPU time, so
// it passes from test to test, emptied; one on which a test failed does not.
type host struct {
	*lasting
	nodes   []*redistest.Server // one, or the masters of cluster
	cluster *redistest.ClusterSet
	java    *agent
}

// hosts are those that no test uses.
type hosts struct {
	mu   sync.Mutex
	idle map[string][]*host // by sort; guarded by mu
}

var spare = hosts{idle: make(map[string][]*host)}

// borrow returns a host of the given sort for the rest of the test. If there
// is none to spare, set starts one: it sets the fields, and has a test whose
// cleanups wait until the host is closed.
func (p *hosts) borrow(t testing.TB, sort string, set func(t testing.TB, h *host)) *host {
	t.Helper()
	h := p.take(sort)
	if h == nil {
		h = &host{lasting: &lasting{TB: t}}
		started := false
		defer func() {
			if !started {
				h.close()
			}
		}()
		set(h.lasting, h)
		started = true
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error of the Java agent:\n%s", h.java.stderr)
			h.close()
			return
		}
		if h.java.busy() || !empty(h.nodes) {
			h.close()
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle[sort] = append(p.idle[sort], h)
	})
	return h
}

// take returns an idle host, or nil.
func (p *hosts) take(sort string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[sort]
	if len(idle) == 0 {
		return nil
	}
	h := idle[len(idle)-1]
	p.idle[sort] = idle[:len(idle)-1]
	return h
}

// close ends all hosts that no test uses.
func (p *hosts) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, h := range idle {
			h.close()
		}
	}
	p.idle = nil
}

// empty deletes all keys, and reports whether that was possible.
func empty(nodes []*redistest.Server) bool {
	for _, node := range nodes {
		if _, err := node.Do("FLUSHALL"); err != nil {
			return false
		}
	}
	return true
}

// lasting is the test that things see which outlive it: it fails as the test
// that starts them, and cleans up when it is closed.
type lasting struct {
	testing.TB
	cleanups []func()
}

func (l *lasting) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Failed is false: what a failed test has to say of its host, borrow says.
func (l *lasting) Failed() bool { return false }

// TempDir is not the test's, which is removed with it.
func (l *lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "mortise-interop-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) }) // a directory that stays does no harm
	return dir
}

func (l *lasting) close() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
	l.cleanups = nil
}
