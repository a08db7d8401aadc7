//go:build server

package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A withdrawn right is not a loss of the lock, and must not be reported
// as one.
func TestRenewWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for name, rule := range map[string]string{
		"hexists": "-hexists", "pttl": "-pttl", "pexpire": "-pexpire", "keys": "resetkeys",
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			w.hold(t, job, time.Minute, me, "1")
			d := w.login(t, "+@all", "~*", "&*", rule)
			r := script.Renew(t.Context(), d, [][]script.Renewal{{script.LockRenewal(job, me, lease)}})[0]
			if r.Err == nil || driver.ClassOf(r.Err) != driver.Denied {
				t.Errorf("Renew: %v, %v, want class denied", r.States, r.Err)
			}
			w.wantDump(t, job, "hash "+me+"=1")
		})
	}
}
