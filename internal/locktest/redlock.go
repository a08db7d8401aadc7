package locktest

import (
	"testing"

	"github.com/mortise-go/mortise/memredis"
)

// On counts the servers on which the lock is held.
func On(t *testing.T, servers []*memredis.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		n += int(Do(t, s, "EXISTS", "job").Int())
	}
	return n
}
