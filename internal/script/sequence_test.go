package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// steps drives one owner's calls on the key job, in tests that know the expected
// reply.
type steps struct {
	*world
	t *testing.T
}

func (s steps) acquire(owner string, ttl time.Duration, want answer) {
	s.t.Helper()
	s.wantAnswer(s.t, answered(acquire(s.t.Context(), s, job, owner, ttl)), want)
}

func (s steps) reenter(owner string, count int, ttl time.Duration, want bool) {
	s.t.Helper()
	ok, err := reenter(s.t.Context(), s, script.LockReentry(job, owner, count, ttl))
	s.flag("LockReenter", ok, err, want)
}

func (s steps) leave(owner string, count int, want bool) {
	s.t.Helper()
	ok, err := script.LockLeave(s.t.Context(), s, job, owner, count)
	s.flag("LockLeave", ok, err, want)
}

func (s steps) release(owner string, want bool) {
	s.t.Helper()
	ok, err := released(script.LockRelease(s.t.Context(), s, job, owner, script.Classic, script.Turns{}))
	s.flag("LockRelease", ok, err, want)
}

func (s steps) flag(what string, ok bool, err error, want bool) {
	s.t.Helper()
	if err != nil || ok != want {
		s.t.Errorf("%s: %v, %v, want %v", what, ok, err, want)
	}
}

func (s steps) renew(owner string, ttl time.Duration, want int) {
	s.t.Helper()
	r := script.Renew(s.t.Context(), s, [][]script.Renewal{{script.LockRenewal(job, owner, ttl)}})[0]
	if r.Err != nil || len(r.States) != 1 || r.States[0] != want {
		s.t.Errorf("Renew: %v, %v, want %d", r.States, r.Err, want)
	}
}

func (s steps) find(want string, ttl time.Duration) {
	s.t.Helper()
	s.wantDump(s.t, job, want)
	s.wantTTL(s.t, job, ttl)
}

// Redisson's figures for its RLock, and mortise's next to them: mortise never shortens a
// lease that a client was promised.
func TestLockBesideRedissonsNumbers(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s, sub := steps{w, t}, w.listen(t, channel, false)
		s.acquire(me, 10*time.Minute, yes)
		s.find("hash "+me+"=1", 10*time.Minute)
		s.reenter(me, 2, 5*time.Minute, true)
		s.find("hash "+me+"=2", 10*time.Minute) // Redisson: 5
		s.reenter(me, 3, 30*time.Minute, true)
		s.find("hash "+me+"=3", 30*time.Minute)
		s.leave(me, 2, true)
		s.leave(me, 1, true)
		s.find("hash "+me+"=1", 30*time.Minute) // Redisson: set to the unlocking object's lease
		sub.want(t)
		s.release(me, true)
		s.find("nothing", absent)
		sub.want(t, "0")
	})
}

// An owner whose lock is gone, for any reason, must not change anything.
func TestLateCallsChangeNothing(t *testing.T) {
	server := single(t)
	for name, end := range map[string]struct {
		how   func(s steps)
		after string
		ttl   time.Duration
		renew int
	}{
		"released": {func(s steps) { s.release(me, true) }, "nothing", absent, script.Gone},
		"expired":  {func(s steps) { s.lapse(s.t, job) }, "nothing", absent, script.Gone},
		"deleted":  {func(s steps) { s.must(s.t, "DEL", job) }, "nothing", absent, script.Gone},
		"flushed":  {func(s steps) { s.must(s.t, "FLUSHALL") }, "nothing", absent, script.Gone},
		"released and taken by Java": {func(s steps) {
			s.release(me, true)
			s.must(s.t, "HINCRBY", job, java, "1")
			s.must(s.t, "PEXPIRE", job, "300000")
		}, "hash " + java + "=1", 5 * time.Minute, script.Taken},
		"expired and taken by Java, forever": {func(s steps) {
			s.lapse(s.t, job)
			s.must(s.t, "HINCRBY", job, java, "1")
		}, "hash " + java + "=1", none, script.Taken},
		"expired and taken by this client": {func(s steps) {
			s.lapse(s.t, job)
			s.acquire(mine2, 5*time.Minute, yes)
		}, "hash " + mine2 + "=1", 5 * time.Minute, script.Taken},
		"deleted, and a read lock since": {func(s steps) {
			s.must(s.t, "DEL", job)
			s.hold(s.t, job, 5*time.Minute, "mode", "read", java, "1")
		}, "hash " + java + "=1 mode=read", 5 * time.Minute, script.Taken},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := steps{w, t}
				s.acquire(me, lease, yes)
				end.how(s)
				sub := w.listen(t, channel, false)
				for range 2 {
					s.reenter(me, 2, lease, false)
					s.leave(me, 1, false)
					s.renew(me, lease, end.renew)
					s.release(me, false)
					s.find(end.after, end.ttl)
				}
				sub.want(t)
			})
		})
	}
}

// A Java client, or a user of redis-cli, does something between two calls.
func TestForeignersBetweenTwoCalls(t *testing.T) {
	server := single(t)
	for name, test := range foreigners {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := steps{w, t}
				s.acquire(me, lease, yes)
				test(t, s)
			})
		})
	}
}

// foreigners change a lock that me holds once.
var foreigners = map[string]func(t *testing.T, s steps){
	"raise the count": func(t *testing.T, s steps) {
		s.must(t, "HINCRBY", job, me, "5")
		s.reenter(me, 2, lease, true)
		s.find("hash "+me+"=2", lease)
		s.must(t, "HINCRBY", job, me, "5")
		s.leave(me, 1, true)
		s.find("hash "+me+"=1", lease)
		s.must(t, "HINCRBY", job, me, "5")
		s.release(me, true)
		s.find("nothing", absent)
	},
	"set the count to nonsense": func(t *testing.T, s steps) {
		s.must(t, "HSET", job, me, "x")
		s.acquire(mine2, lease, heldBy(me, -1, lease))
		s.renew(me, 10*time.Minute, script.Renewed)
		s.find("hash "+me+"=x", 10*time.Minute)
		s.reenter(me, 2, lease, true)
		s.find("hash "+me+"=2", 10*time.Minute)
	},
	"take the TTL away": func(t *testing.T, s steps) {
		s.must(t, "PERSIST", job)
		s.acquire(mine2, lease, heldBy(me, 1, -1))
		s.renew(me, lease, script.Renewed)
		s.find("hash "+me+"=1", lease)
		s.must(t, "PERSIST", job)
		s.reenter(me, 2, lease, true)
		s.find("hash "+me+"=2", lease)
	},
	"make it last": func(t *testing.T, s steps) {
		s.must(t, "PEXPIRE", job, "3600000")
		s.renew(me, lease, script.Renewed)
		s.reenter(me, 2, lease, true)
		s.acquire(me, lease, yes)
		s.leave(me, 1, true)
		s.find("hash "+me+"=1", time.Hour)
	},
	"shorten it": func(t *testing.T, s steps) {
		s.must(t, "PEXPIRE", job, "40000")
		s.leave(me, 1, true)
		s.find("hash "+me+"=1", 40*time.Second)
		s.renew(me, lease, script.Renewed)
		s.find("hash "+me+"=1", lease)
	},
	// Redisson's write lock does not see that a plain lock has the key.
	"enter as a write lock": func(t *testing.T, s steps) {
		s.must(t, "HSET", job, "mode", "write", java+":write", "1")
		s.acquire(mine2, lease, refused("kind"))
		s.acquire(me, lease, refused("kind"))
		s.reenter(me, 2, lease, true)
		s.leave(me, 1, true)
		s.renew(me, 10*time.Minute, script.Renewed)
		s.find("hash "+me+"=1 "+java+":write=1 mode=write", 10*time.Minute)
	},
	"put a string there": func(t *testing.T, s steps) {
		s.must(t, "SET", job, "5")
		s.renew(me, lease, script.Taken)
		_, err := released(script.LockRelease(t.Context(), s, job, me, script.Classic, script.Turns{}))
		if err == nil || driver.ClassOf(err) != driver.WrongType {
			t.Errorf("LockRelease: %v, want class wrong type", err)
		}
		s.find("string 5", none)
	},
	"release it, for Java to take and release": func(t *testing.T, s steps) {
		s.must(t, "DEL", job)
		s.must(t, "HINCRBY", job, javaN, "1")
		s.must(t, "PEXPIRE", job, "300000")
		s.acquire(mine2, lease, heldBy(javaN, 1, 5*time.Minute))
		s.must(t, "HINCRBY", job, javaN, "1") // re-entered
		s.must(t, "PEXPIRE", job, "300000")
		s.acquire(mine2, lease, heldBy(javaN, 2, 5*time.Minute))
		s.must(t, "HINCRBY", job, javaN, "-1")
		s.acquire(mine2, lease, heldBy(javaN, 1, 5*time.Minute))
		s.must(t, "DEL", job)
		s.acquire(mine2, lease, yes)
		s.find("hash "+mine2+"=1", lease)
	},
}

// A delayed copy of the acquisition arrives only after the lock was re-entered, left or
// released by its owner.
func TestLateCopyOfAnAcquisition(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := steps{w, t}
		s.acquire(me, lease, yes)
		s.reenter(me, 2, lease, true)
		s.acquire(me, lease, yes)
		s.find("hash "+me+"=2", lease)
		s.release(me, true)
		s.acquire(java, lease, yes)
		s.acquire(me, lease, heldBy(java, 1, lease))
		s.find("hash "+java+"=1", lease)
	})
}

// The scripts alone exclude: a holder sees no other holder, and no hold is lost.
func TestScriptsExclude(t *testing.T) {
	const owners, rounds = 4, 25
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		inside := make(chan string, owners)
		done := make(chan struct{}, owners)
		for _, owner := range []string{me, mine2, java, javaN} {
			d := w.connect(t)
			go func() {
				defer func() { done <- struct{}{} }()
				for range rounds {
					for {
						ok, _, err := acquire(context.Background(), d, job, owner, lease)
						if err != nil {
							t.Error(err)
							return
						}
						if ok {
							break
						}
					}
					inside <- owner
					if n := len(inside); n != 1 {
						t.Errorf("%d owners hold the lock, want 1", n)
					}
					<-inside
					if ok, err := released(script.LockRelease(context.Background(), d, job, owner, script.Classic, script.Turns{})); err != nil || !ok {
						t.Errorf("LockRelease: %v, %v, want true", ok, err)
						return
					}
				}
			}()
		}
		for range owners {
			<-done
		}
		w.wantDump(t, job, "nothing")
	})
}
