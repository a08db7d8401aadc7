//go:build server

package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A user without the right to ask for the time, or for details, renews nevertheless.
func TestRenewWithoutTheRightToTheTime(t *testing.T) {
	server := redistest.Single(t)
	for name, rule := range map[string]string{"time": "-time", "hget": "-hget", "hlen": "-hlen"} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			w.hold(t, job, long, me, "1")
			d := w.login(t, "+@all", "~*", "&*", rule)
			renewal := script.LockRenewal(job, me, lease)
			renewal.Most, renewal.Count = lease, 1
			r := script.Renew(t.Context(), d, [][]script.Renewal{{renewal}})[0]
			if r.Err != nil || !slices.Equal(r.States, []int{script.Renewed}) || (r.Clock == 0) != (name == "time") {
				t.Errorf("Renew: %+v, want it renewed", r)
			}
		})
	}
}

// On the ordinary path a renewal runs no additional commands, except one for the
// time.
func TestRenewCallsNoMoreThanItMust(t *testing.T) {
	server := redistest.Single(t)
	w := realWorld(t, server)
	var renewals []script.Renewal
	for i := range script.RenewBatch {
		key := fmt.Sprint("job:", i)
		w.hold(t, key, time.Minute, me, "1")
		renewal := script.LockRenewal(key, me, lease)
		renewal.Most, renewal.Count = lease, 1
		renewals = append(renewals, renewal)
	}
	w.must(t, "CONFIG", "RESETSTAT")
	if r := script.Renew(t.Context(), driver.Driver(w), [][]script.Renewal{renewals})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if calls, _ := w.work(t); calls != 3*script.RenewBatch+1 {
		t.Errorf("%d inner calls, want three for each lease and one", calls)
	}
}
