package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/script"
)

// How often in a row a release is left to Redisson's threads follows from how many clients listen on each side. At most
// eight times, and a waiter of a lock without turns is told the same.
func TestReleaseIsLeftByNumbers(t *testing.T) {
	for _, c := range []struct{ r, g, times int }{{1, 1, 1}, {2, 1, 2}, {7, 1, 7}, {8, 1, 8}, {9, 1, 8}, {100, 1, 8}, {3, 2, 2}, {1, 100, 1}} {
		t.Run(fmt.Sprint(c.r, " beside ", c.g), func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				var sub *subscriber
				for range c.g {
					sub = w.listen(t, channel, false)
				}
				for range c.r {
					w.listenAsRedisson(t, channel, false)
				}
				held(lease, me, "1")(t, w)
				became, err := script.LockRelease(t.Context(), w, job, me, script.Classic, script.Turns{Command: "publish", Shared: true})
				if became != script.ReleasedLeft || err != nil {
					t.Fatalf("%v, %v, want that it is left to Redisson's threads", became, err)
				}
				want := "000"
				if c.times > 1 {
					want += strings.Repeat("0", c.times)
				}
				sub.want(t, want)
				if m := script.ParseRelease(want); !m.Left || m.Times != c.times {
					t.Errorf("%q says %+v, want %d times", want, m, c.times)
				}
			})
		})
	}
}
