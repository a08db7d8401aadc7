package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
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

// Permits that come back are left to Redisson's threads likewise. Where mortise's clients are more,
// they are left that much less often, whatever else the client releases in between.
func TestPermitsAreLeftByNumbers(t *testing.T) {
	server := single(t)
	for kind, release := range map[string]func(t *testing.T, w *world, serial int64) (left bool){
		"Semaphore": func(t *testing.T, w *world, serial int64) (left bool) {
			_, became, err := script.SemaphoreRelease(t.Context(), w, job, script.Operation{Lane: "me", Serial: uint64(serial)}, 1, script.Classic, "publish", serial)
			if became == script.NotHeld || err != nil {
				t.Fatalf("the release: %v, %v", became, err)
			}
			return became == script.ReleasedLeft
		},
		"PermitSemaphore": func(t *testing.T, w *world, serial int64) (left bool) {
			n, left, err := script.PermitRelease(t.Context(), w, script.Permits{Name: job, Turn: "publish", Serial: serial}, "", []string{one})
			if n != 1 || err != nil {
				t.Fatalf("the release: %d, %v", n, err)
			}
			return left
		},
	} {
		for _, c := range []struct{ r, g, times int }{{0, 1, 0}, {0, 3, 0}, {1, 1, 1}, {2, 1, 2}, {9, 1, 8}, {3, 2, 2}, {1, 2, 1}, {1, 4, 1}, {3, 4, 1}} {
			for _, apart := range []int64{1, 2, 3} {
				t.Run(fmt.Sprintf("%s/%d beside %d, serial numbers %d apart", kind, c.r, c.g, apart), func(t *testing.T) {
					everywhere(t, server, func(t *testing.T, w *world) { leavePermits(t, w, release, c.r, c.g, c.times, apart) })
				})
			}
		}
	}
}

func leavePermits(t *testing.T, w *world, release func(t *testing.T, w *world, serial int64) (left bool), r, g, times int, apart int64) {
	const rounds = 24
	ann := w.subscribe(t, keyspace.TurnChannel(job, "ann"), false)
	var news *subscriber
	for range g {
		news = w.listen(t, permitNews, false)
	}
	for range r {
		w.listenAsRedisson(t, permitNews, false)
	}
	count := 0
	for i := range int64(rounds) {
		w.must(t, "SET", job, "1")
		if ok, _, err := script.PermitAcquire(t.Context(), w, permits, []string{one}, lease, false, ""); !ok || err != nil {
			t.Fatal(ok, err)
		}
		permitHolders["Semaphore"].claim(t, w, int(i), 1, "ann")
		announced, notified := "0001", []string{"!"}
		if release(t, w, 1+i*apart) {
			count++
			announced, notified = "00"+strings.Repeat("0", times)+"1", []string{"~" + fmt.Sprint(times)}
			if times == 1 {
				announced, notified = "001", []string{"~"}
			}
		}
		news.want(t, announced)
		ann.want(t, notified...)
		w.must(t, "DEL", claims, keyspace.PermitExpiries(job))
	}
	if due := rounds * min(r, g) / g; count < due-2 || count > due+2 {
		t.Errorf("%d of %d releases were left to Redisson's threads, want %d", count, rounds, due)
	}
}
