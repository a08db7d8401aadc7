package cost

import (
	"fmt"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// To find locks among many keys costs three commands for about 500 of them. A closer look is for those that may
// be held.
func TestListingCost(t *testing.T) {
	const keys, locks = 100_000, 3
	server := redistest.Single(t)
	server.Must(t, "DEBUG", "POPULATE", fmt.Sprint(keys/2), "text", "32")
	server.Must(t, "EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('hset', 'user:' .. i, 'name', 'x', 'mail', 'y', 'age', i) end", "0", fmt.Sprint(keys/2))
	d, _ := libraries["rueidis"](t, server.Addr())
	client := mortise.New(d, nil)
	defer client.Close()
	for i := range locks {
		hold, _ := mustLock(t, client.Lock(fmt.Sprint("job:", i)), t.Context())
		defer mustUnlock(t, hold)
	}
	list := func() (found int) {
		for state, err := range client.Locks(t.Context(), "*") {
			if err != nil {
				t.Fatal(err)
			}
			if !state.Locked {
				t.Errorf("it lists %q, which is not held", state.Name)
			}
			found++
		}
		return found
	}
	list() // so that the server knows the scripts
	server.Must(t, "CONFIG", "RESETSTAT")
	if n := list(); n != locks {
		t.Errorf("it lists %d locks, want %d", n, locks)
	}
	scans, scripts := callsOf(t, server, "scan"), callsOf(t, server, "evalsha")
	t.Logf("%d keys: %d SCAN, %d scripts", keys, scans, scripts)
	if most := int64(keys / 400); scans > most { // pages vary
		t.Errorf("%d SCAN, want %d at most", scans, most)
	}
	if most := 3*scans + locks + 20; scripts > most { // a page has a few more than 500 keys; records and renewals come on top
		t.Errorf("%d scripts, want %d at most", scripts, most)
	}
}
