//go:build server && proof

package script_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// Keys around a fair lock, with content of other clients, which may be of any size.
var crowds = map[string]string{
	"dead waiters whose time is over": `redis.call('rpush', KEYS[2], java .. n) redis.call('zadd', KEYS[3], n, java .. n)`,
	"dead waiters whose time is not":  `redis.call('rpush', KEYS[2], java .. n) redis.call('zadd', KEYS[3], 9e12, java .. n)`,
	"waiters without a deadline":      `redis.call('rpush', KEYS[2], java .. n)`,
	"deadlines without waiters":       `redis.call('zadd', KEYS[3], n, java .. n)`,
	"waiters for another lock":        `redis.call('rpush', KEYS[2], ours .. n) redis.call('zadd', KEYS[3], 9e12, ours .. n)`,
	"dead waiters for another lock":   `redis.call('rpush', KEYS[2], ours .. n) redis.call('zadd', KEYS[3], n, ours .. n)`,
	"dead waiters of ours": `redis.call('rpush', KEYS[2], ours .. n) redis.call('zadd', KEYS[3], n, ours .. n)
		redis.call('hset', KEYS[4], ours .. n, '1 x')`,
	"waiters of ours that are not there": `redis.call('hset', KEYS[4], ours .. n, '1 x')`,
	"signs of life":                      `redis.call('hset', KEYS[5], '?' .. java .. n, '1 1', string.format('8d4f8a6e-2d1c-8f39-8f0b-%012d', n), 1)`,
	"holders":                            `redis.call('hset', KEYS[1], java .. n, 1)`,
	"the same waiter":                    `redis.call('rpush', KEYS[2], java) redis.call('zadd', KEYS[3], 9e12, java)`,
}

// Whatever the keys hold, a script runs a bounded number of commands.
func TestFairWorkIsBounded(t *testing.T) {
	const many, most = 20_000, 4000
	server := redistest.Single(t)
	for name, body := range crowds {
		t.Run(name, func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}
			for what, call := range fairWork(t, f, server, hundred()) {
				f.must(t, "FLUSHALL")
				f.fill(many, body)
				if what == "leave" && name == "holders" {
					continue
				}
				server.Must(t, "CONFIG", "RESETSTAT")
				if err := call(); err != nil && driver.ClassOf(err) != driver.WrongType {
					t.Errorf("%s: %v", what, err)
				}
				calls := commandsRun(t, server)
				if calls > most {
					t.Errorf("%s: %d commands, want %d at most", what, calls, most)
				}
				t.Logf("%s: %d commands", what, calls)
			}
		})
	}
}

// fairWork are operations on a fair lock of any content. All are places for a hundred waiters.
func fairWork(t *testing.T, f fair, server *redistest.Server, all []script.FairPlace) map[string]func() error {
	return map[string]func() error{
		"acquire once": func() error {
			_, _, err := script.FairAcquire(t.Context(), f, f.Fair, place(me), lease, script.FairOnce)
			return err
		},
		"queue": func() error {
			_, _, err := script.FairAcquire(t.Context(), f, f.Fair, place(me), lease, script.FairQueue)
			return err
		},
		"ask again": func() error {
			_, _, err := script.FairAcquire(t.Context(), f, f.Fair, place(mine2), lease, script.FairAgain)
			return err
		},
		"release": func() error {
			f.hold(t, job, lease, other, "1")
			_, _, err := script.FairRelease(t.Context(), f, f.Fair, other)
			return err
		},
		"leave": func() error {
			f.acquire(f, me, script.FairQueue)
			_, _, err := script.FairRelease(t.Context(), f, f.Fair, me)
			return err
		},
		"leave together": func() error {
			var owners []string
			for _, p := range all {
				if _, _, err := script.FairAcquire(t.Context(), f, f.Fair, p, lease, script.FairQueue); err != nil {
					return nil // a hash of another kind
				}
				owners = append(owners, p.Owner)
			}
			server.Must(t, "CONFIG", "RESETSTAT")
			_, _, err := script.FairLeave(t.Context(), f, f.Fair, owners)
			return err
		},
		"tend": func() error {
			for _, p := range all[:50] {
				if _, _, err := script.FairAcquire(t.Context(), f, f.Fair, p, lease, script.FairQueue); err != nil {
					return nil // a hash of another kind
				}
			}
			server.Must(t, "CONFIG", "RESETSTAT")
			_, err := script.FairTend(t.Context(), f, f.Fair, client, all)
			return err
		},
		"tend, where the lock is held": func() error {
			f.hold(t, job, lease, other, "1")
			_, err := script.FairTend(t.Context(), f, f.Fair, client, all)
			return err
		},
	}
}

func hundred() (all []script.FairPlace) {
	for i := range 100 {
		all = append(all, place(fmt.Sprint(client, ":", 1000+i)))
	}
	return all
}

// fill runs a script with n = 1 to many.
func (f fair) fill(many int, body string) {
	f.t.Helper()
	keys := []string{
		job, keyspace.FairQueue(job), keyspace.FairDeadlines(job), keyspace.FairOurs(job), keyspace.FairSigns(job),
	}
	source := "local java, ours = '8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:', '8d4f8a6e-2d1c-8f39-8f0b-3c1f5f2a7e90:'\n" +
		"for n = ARGV[1] + 1, ARGV[2] do " + body + " end return 1"
	s := driver.NewScript("fill", source)
	const slice = 10_000
	for done := 0; done < many; done += slice {
		if _, err := f.Eval(f.t.Context(), driver.Call{Script: s, Keys: keys, Args: []string{strconv.Itoa(done), strconv.Itoa(min(many, done+slice))}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// The crowd goes nevertheless, and other clients do not wait meanwhile.
func TestFairCrowdOfTheDeadHoldsUpNobody(t *testing.T) {
	server := redistest.Single(t)
	for name, most := range map[string]time.Duration{
		"dead waiters whose time is over": 30 * time.Second, "dead waiters for another lock": 30 * time.Second, "dead waiters of ours": 30 * time.Second,
		"holders": 0, "signs of life": 30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { fairCrowdHoldsUpNobody(t, b, server, name, most) })
		})
	}
}

// fairCrowdHoldsUpNobody acquires a fair lock behind a crowd, in that time at most; 0 if it never will.
func fairCrowdHoldsUpNobody(t *testing.T, b *canary.Bounds, server *redistest.Server, crowd string, most time.Duration) {
	f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}
	f.fill(100_000, crowds[crowd])
	server.Must(t, "CONFIG", "SET", "slowlog-log-slower-than", "100000")
	server.Must(t, "SLOWLOG", "RESET")
	stop := make(chan struct{})
	longestPing := pings(t, f.connect(t), stop)
	start := time.Now()
	got, runs := false, 0
	for !got && (runs < 20 || most > 0) && time.Since(start) < 2*time.Minute {
		ok, _, err := script.FairAcquire(t.Context(), f, f.Fair, place(me), lease, script.FairQueue)
		if err != nil && driver.ClassOf(err) != driver.WrongType {
			t.Error(err)
			break
		}
		if got = ok; !got {
			_, _ = script.FairTend(t.Context(), f, f.Fair, client, places(me))
		}
		runs++
	}
	took := time.Since(start)
	close(stop)
	// One script for the whole crowd would take more than a second.
	b.Within("another client's PING meanwhile", <-longestPing, 500*time.Millisecond)
	if got != (most > 0) {
		t.Errorf("acquired: %v after %v and %d runs", got, took, runs)
	} else if got {
		b.Within("the acquisition", took, most)
	}
	// Redis' own measurement is without the time of the test.
	slow, _ := server.Must(t, "SLOWLOG", "GET").([]any)
	for _, entry := range slow {
		micros := entry.([]any)[2].(int64)
		b.Within("a command", time.Duration(micros)*time.Microsecond, 100*time.Millisecond)
	}
}

// pings sends PING after PING until stop is closed, and then returns how long the longest one took.
func pings(t *testing.T, bystander *wire, stop <-chan struct{}) <-chan time.Duration {
	done := make(chan time.Duration)
	go func() {
		var longest time.Duration
		for {
			select {
			case <-stop:
				done <- longest
				return
			default:
			}
			start := time.Now()
			bystander.must(t, "PING")
			longest = max(longest, time.Since(start))
		}
	}()
	return done
}
