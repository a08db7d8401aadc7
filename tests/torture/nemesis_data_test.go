package torture

import (
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// restartKept kills the server and starts it again with what it had written to its file, which
// is all that it had confirmed.
func restartKept(r *round) int { return r.restart() }

// restartEmpty kills the server and starts it again without data.
func restartEmpty(r *round) (n int) {
	r.forgets(func() { n = r.restart() })
	r.raiseTokens()
	return n
}

func (r *round) restart() int {
	n := len(r.held())
	r.master.Kill()
	r.pause(0, r.ttl)
	r.master.Start(r.t)
	r.pause(r.ttl/2, r.ttl)
	return n
}

// raiseTokens sets the counters of tokens to the highest that the witness has seen, as an operator
// does after Redis has lost them.
func (r *round) raiseTokens() {
	r.mu.Lock()
	newest := map[string]int64{}
	for _, l := range r.loads {
		if !l.Fenced {
			continue
		}
		if reg := r.registers[things(l)[0]]; reg != nil {
			newest[l.Name] = reg.newest
		}
	}
	r.mu.Unlock()
	const raise = `if tonumber(redis.call('get', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('set', KEYS[1], ARGV[1]) end`
	for name, token := range newest {
		key := "redisson_lock_token:{" + name + "}"
		if strings.Contains(name, "{") {
			key = "redisson_lock_token:" + name
		}
		r.serving(r.t, key).Must(r.t, "EVAL", raise, "1", key, fmt.Sprint(token+1000))
	}
}

// deleteHeld deletes the keys of locks that are held.
func deleteHeld(r *round) (n int) {
	for _, c := range r.held() {
		load := r.loads[c.load]
		switch load.Kind {
		case "lock", "fenced", "spin", "fair", "read", "write":
		default:
			continue
		}
		var owner string
		var span span
		r.forgets(func() {
			const take = `local h = redis.call('hkeys', KEYS[1]); redis.call('del', KEYS[1]); return table.concat(h, ',')`
			span.from = torture.Now()
			owner = r.serving(r.t, load.Name).Str(r.t, "EVAL", take, "1", load.Name)
			span.to = torture.Now()
		})
		if owner != "" {
			n++
			r.mu.Lock()
			r.taken = append(r.taken, taken{span, owner})
			r.mu.Unlock()
		}
	}
	r.pause(r.ttl/2, r.ttl)
	return n
}

// flushAll deletes everything, the counters of tokens as well.
func flushAll(r *round) (n int) {
	n = len(r.held())
	r.forgets(func() {
		for _, s := range r.masters(r.t) {
			s.Must(r.t, "FLUSHALL")
		}
	})
	r.raiseTokens()
	r.pause(r.ttl/2, r.ttl)
	return n
}

// evict has Redis evict keys at random, because there is little memory.
func evict(r *round) int {
	before, _ := r.master.Info("stats", "evicted_keys")
	r.forgets(func() {
		for _, c := range [][]string{{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "1"}} {
			r.master.Must(r.t, "CONFIG", "SET", c[0], c[1])
		}
		r.pause(10*time.Millisecond, 100*time.Millisecond)
		for _, c := range [][]string{{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}} {
			r.master.Must(r.t, "CONFIG", "SET", c[0], c[1])
		}
	})
	r.raiseTokens()
	after, _ := r.master.Info("stats", "evicted_keys")
	var a, b int
	_, _ = fmt.Sscan(before, &a)
	_, _ = fmt.Sscan(after, &b)
	r.pause(r.ttl/2, r.ttl)
	return b - a
}

// setClock sets the clock of Redis, mostly forward, by seconds or hours.
func setClock(r *round) int {
	n := len(r.held())
	by := []time.Duration{2 * time.Second, 5 * time.Second, time.Minute, time.Hour, -2 * time.Second, -time.Second}[r.random.IntN(6)]
	r.ahead += by
	set := func() { r.clock.Set(r.t, r.ahead) }
	if by > 0 {
		r.forgets(set)
	} else {
		set()
	}
	r.pause(r.ttl/2, 2*r.ttl)
	return n
}

// taken is what the owner of a key has lost, and when.
type taken struct {
	span
	owner string
}
