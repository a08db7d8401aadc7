package memredis_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A script sees one instant, however long it runs: what it has found stays as long as it runs.
func TestTimeStandsStillInAScript(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server, d driver.Driver) {
		s.Hook(func(command string, _ []string) bool {
			if command == "ECHO" {
				time.Sleep(2 * time.Second)
			}
			return true
		})
		eval(t, d, call(set, "k", "v", "1000"))
		slow := driver.NewScript("slow", `
			local before, t = redis.call('pttl', KEYS[1]), redis.call('time')
			redis.call('echo', 'slow')
			local after, u = redis.call('pttl', KEYS[1]), redis.call('time')
			return {before, after, redis.call('get', KEYS[1]) or 'none', t[1] == u[1] and t[2] == u[2] and 1 or 0}`)
		start := time.Now()
		got := eval(t, d, call(slow, "k"))
		if ran := time.Since(start); ran != 2*time.Second {
			t.Fatalf("the script ran for %v", ran)
		}
		if want := `[1000 1000 "v" 1]`; got.String() != want {
			t.Errorf("PTTL, PTTL, GET and whether TIME was the same: %s, want %s", got, want)
		}
		if got := eval(t, d, call(pttl, "k")).Int(); got != -2 {
			t.Errorf("PTTL %d after the end", got)
		}
	})
}

// The time moves with each command of a connection, of any number, also if none runs for hours.
func TestTimeMovesBetweenCommands(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server, d driver.Driver) {
		other := s.Driver()
		defer other.Close()
		eval(t, d, call(set, "k", "v", "10000"))
		for i, by := range []driver.Driver{other, d, other} {
			time.Sleep(3 * time.Second)
			if got := eval(t, by, call(pttl, "k")).Int(); got != int64(7000-3000*i) {
				t.Errorf("PTTL %d after %ds of 10", got, 3*(i+1))
			}
		}
		time.Sleep(time.Second)
		if got := eval(t, d, call(pttl, "k")).Int(); got != -2 {
			t.Errorf("PTTL %d after the end", got)
		}
	})
}
