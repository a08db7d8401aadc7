//go:build server && proof

package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// The same as in virtual time; here the lease must not end before the test has looked.
func TestRealGroupOfADeadHolderPassesOn(t *testing.T) {
	server := redistest.Single(t)
	for name, holder := range deadHolders(time.Second) {
		t.Run(name, func(t *testing.T) { holder.passesOn(t, realWorld(t, server), 200*time.Microsecond) })
	}
}
