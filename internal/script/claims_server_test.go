//go:build server

package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A waiter renews its claim once a second. While there are not enough permits it does not read the claims of all others,
// unless it may not read its own alone.
func TestRenewedClaimReadsNoOther(t *testing.T) {
	server := redistest.Single(t)
	for name, ask := range map[string]func(t *testing.T, d driver.Driver, waiter int) (bool, error){
		"Semaphore": func(t *testing.T, d driver.Driver, waiter int) (bool, error) {
			ok, _, err := script.SemaphoreAcquire(t.Context(), d, job, first(fmt.Sprint("lane", waiter)), 2, fmt.Sprint(waiter), "")
			return ok, err
		},
		"PermitSemaphore": func(t *testing.T, d driver.Driver, waiter int) (bool, error) {
			ok, _, err := script.PermitAcquire(t.Context(), d, permits, manyIDs(waiter, 2), time.Minute, true, "")
			return ok, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			permitWorld{w, t}.set("4")
			if ok, _, err := script.PermitAcquire(t.Context(), w, permits, manyIDs(99, 4), time.Minute, false, ""); !ok || err != nil {
				t.Fatal(ok, err)
			}
			read := func(d driver.Driver, waiter int, want int) {
				t.Helper()
				server.Must(t, "CONFIG", "RESETSTAT")
				if ok, err := ask(t, d, waiter); ok || err != nil {
					t.Fatalf("waiter %d: %v, %v, want a refusal", waiter, ok, err)
				}
				if got := strings.Count(server.Must(t, "INFO", "commandstats").(string), "cmdstat_hgetall:calls=1,"); got != want {
					t.Errorf("waiter %d reads the claims %d times, want %d", waiter, got, want)
				}
			}
			read(w, 1, 0) // no claims yet
			read(w, 2, 1)
			read(w, 1, 0)
			read(w, 2, 0)
			read(w.login(t, "+@all", "~*", "&*", "-hget"), 2, 1)
			w.must(t, "INCRBY", job, "1")
			read(w, 2, 0)
			w.must(t, "INCRBY", job, "1") // enough, but not for the second
			read(w, 2, 1)
		})
	}
}
