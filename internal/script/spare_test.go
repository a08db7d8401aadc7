package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Who gets permits learns how many others may take without a claim: what is left, less all claims of others.
func TestSparePermits(t *testing.T) {
	server := single(t)
	for name, acquire := range map[string]func(t *testing.T, w *world, n int, waiter string) (bool, script.PermitRefusal, error){
		"Semaphore": func(t *testing.T, w *world, n int, waiter string) (bool, script.PermitRefusal, error) {
			return script.SemaphoreAcquire(t.Context(), w, job, first("lane"+waiter), n, waiter, "")
		},
		"PermitSemaphore": func(t *testing.T, w *world, n int, waiter string) (bool, script.PermitRefusal, error) {
			return script.PermitAcquire(t.Context(), w, permits, manyIDs(len(waiter), n), time.Minute, waiter != "", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				take := func(n int, waiter string, want bool, spare int) {
					t.Helper()
					ok, why, err := acquire(t, w, n, waiter)
					if err != nil || ok != want || ok && why.Available != spare {
						t.Errorf("%q takes %d: %v, %d spare, %v; want %v, %d spare", waiter, n, ok, why.Available, err, want, spare)
					}
				}
				permitWorld{w, t}.set("20")
				take(5, "", true, 15)
				take(16, "a", false, 0)
				take(2, "bb", false, 0)  // behind a
				take(1, "ccc", false, 0) // behind both
				w.must(t, "INCRBY", job, "9")
				take(16, "a", true, 5) // of 24, less 2 and 1
				take(2, "bb", true, 5)
				take(1, "ccc", true, 5)
				take(5, "dddd", true, 0)
			})
		})
	}
}
