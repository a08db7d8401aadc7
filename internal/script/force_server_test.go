//go:build server

package script_test

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A user without the right to the fence, or to move it, can release the lock by force nevertheless.
func TestLockForceWithoutARight(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range map[string]struct {
		rules  []string
		denied bool // the caller is told
		fence  string
	}{
		"to the keys": {[]string{"+@all", "~" + job, "&*"}, true, "9"},
		"to INCR":     {[]string{"+@all", "~*", "&*", "-incr"}, false, "9"},
		"to SET":      {[]string{"+@all", "~*", "&*", "-set"}, false, "9"},
		"to GETRANGE": {[]string{"+@all", "~*", "&*", "-getrange"}, false, "42"}, // GET is enough
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			held(lease, me, "1")(t, w)
			w.must(t, "SET", tokenKey, "41")
			w.must(t, "SET", fenceKey, "9")
			became, err := script.LockForce(t.Context(), w.login(t, test.rules...), job, me, script.Classic, script.Turns{})
			if became == script.NotHeld || (driver.ClassOf(err) == driver.Denied) != test.denied {
				t.Errorf("%v, %v, want a release", became, err)
			}
			w.wantDump(t, job, "nothing")
			w.wantDump(t, fenceKey, "string "+test.fence)
		})
	}
}
