package script_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Scripts that may meet many waiters, readers or values look at so many of them. At both sides of each limit nobody who is
// alive may be overlooked.

// fill runs a script of the test's own that puts n things there. It has `now` in ms.
func (w *world) fill(t *testing.T, n int, lua string, keys ...string) {
	t.Helper()
	w.must(t, append([]string{"EVAL", `
		local clock = redis.call('time')
		local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
		for i = 1, tonumber(ARGV[1]) do ` + lua + ` end`, strconv.Itoa(len(keys))}, append(keys, strconv.Itoa(n))...)...)
}

// A waiter whose turn comes after those of many clients that are gone gets the lock once these have been passed over,
// a hundred with each release.
func TestTurnsOfManyThatAreGone(t *testing.T) {
	server := single(t)
	for _, gone := range []int{0, 1, 99, 100, 101, 250, 1000} {
		t.Run(strconv.Itoa(gone), func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, keyspace.TurnChannel(job, bob), false)
				w.fill(t, gone, `redis.call('zadd', KEYS[1], i, 'a1000000-0000-8000-8000-' .. string.format('%012d', i) .. ':1')`, keyspace.Turns(job))
				w.must(t, "ZADD", keyspace.Turns(job), "2000", bobs)
				for left := gone; ; left -= 100 {
					w.hold(t, job, lease, me, "1")
					became, err := script.LockRelease(t.Context(), w, job, me, script.Classic, script.Turns{Command: "publish"})
					if err != nil {
						t.Fatal(err)
					}
					if left < 100 {
						if became != script.ReleasedGranted {
							t.Errorf("the release was %v, want that the lock is granted", became)
						}
						break
					}
					w.wantDump(t, job, "nothing")
					if n := w.must(t, "ZCARD", keyspace.Turns(job)).Int(); became != script.ReleasedNow || n != int64(left-100+1) {
						t.Fatalf("the release was %v, with %d turns left, want %d", became, n, left-100+1)
					}
				}
				w.wantDump(t, job, "hash "+bobs+"=1")
				sub.want(t, bobs+" 1")
			})
		})
	}
}

// One reader lives among many that are dead: it keeps the writers out, and its lease, whoever leaves.
func TestReaderAmongManyDead(t *testing.T) {
	server := single(t)
	for _, dead := range []int{1, 99, 100, 101, 250, 997, 998, 999, 1000, 1001, 2500} {
		t.Run(strconv.Itoa(dead), func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				reading(long, by(mine2, "1", long)).put(t, w)
				w.fill(t, dead, `redis.call('hset', KEYS[1], 'a1000000-0000-8000-8000-' .. string.format('%012d', i) .. ':1', 1)`, job)
				for range 4 {
					if got := writeAcquire(t.Context(), w); got.ok || got.err != "" {
						t.Fatalf("a writer entered beside a reader: %+v", got)
					}
					if ok, _, err := script.RWReadAcquire(t.Context(), w, job, me, "", lease); !ok || err != nil {
						t.Fatalf("a reader does not get the lock: %v, %v", ok, err)
					}
					if _, err := script.RWReadRelease(t.Context(), w, job, me, rwChannel, script.Classic); err != nil {
						t.Fatal(err)
					}
					if w.must(t, "HGET", job, mine2).Str() != "1" {
						t.Fatal("the reader has lost its lock")
					}
					w.wantTTL(t, job, long)
				}
				if _, err := script.RWReadRelease(t.Context(), w, job, mine2, rwChannel, script.Classic); err != nil {
					t.Fatal(err)
				}
				for tries := 0; !writeAcquire(t.Context(), w).ok; tries++ {
					if tries > dead/500 {
						t.Fatalf("no writer gets the lock of the dead after %d attempts", tries)
					}
				}
			})
		})
	}
}

// The key of a group outlasts the leases of all who hold values of it, also if somebody has taken its TTL away.
func TestGroupOutlastsManyHolders(t *testing.T) {
	server := single(t)
	for _, holders := range []int{1, 333, 334, 999, 1000, 1001, 2500} {
		t.Run(strconv.Itoa(holders), func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				w.fill(t, holders, fmt.Sprintf(`
					local field, owner = 'f' .. i, '%s'
					redis.call('hset', KEYS[1], field, owner, field .. ':' .. owner .. ':lock_count', 1,
						field .. ':' .. owner .. ':expire_time', string.format('%%.0f', now + (i == 1 and %d or %d)))`,
					java, long.Milliseconds(), lease.Milliseconds()), job)
				mine := script.Group{Name: job, Fields: []string{"mine"}}
				if ok, _, err := script.GroupAcquire(t.Context(), w, mine, me, lease); !ok || err != nil {
					t.Fatalf("a value that nobody holds is not to be had: %v, %v", ok, err)
				}
				want := long + linger
				if holders > 1000 { // too many to look at: it stays without a TTL
					want = none
				}
				w.wantTTL(t, job, want)
				first := script.Group{Name: job, Fields: []string{"f1"}}
				if ok, by, err := script.GroupAcquire(t.Context(), w, first, me, lease); ok || err != nil || by.Owner != java {
					t.Errorf("a value that is held: %v, %+v, %v, want that Java's thread holds it", ok, by, err)
				}
				if _, err := script.GroupRelease(t.Context(), w, mine, me, channel, script.Classic); err != nil {
					t.Fatal(err)
				}
				if n := w.must(t, "HLEN", job).Int(); n != int64(3*holders) {
					t.Errorf("%d entries are left, want those of %d values", n, holders)
				}
			})
		})
	}
}
