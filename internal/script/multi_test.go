package script_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// The keys of scripts that work on several.
var several = []string{"{job}:a", "{job}:b", "{job}:c"}

// lot is the content of each of several keys, and their TTLs.
type lot [3]leaf

type leaf struct {
	fields []string // of a hash; none if nothing is there
	ttl    time.Duration
	text   bool // a string instead
}

func (l lot) put(t *testing.T, w *world) {
	t.Helper()
	for i, leaf := range l {
		w.must(t, "DEL", several[i])
		switch {
		case leaf.text:
			w.must(t, "SET", several[i], "5")
		case leaf.fields != nil:
			w.hold(t, several[i], leaf.ttl, leaf.fields...)
		}
	}
}

func (l lot) want(t *testing.T, w *world) {
	t.Helper()
	for i, leaf := range l {
		switch {
		case leaf.text:
			w.wantDump(t, several[i], "string 5")
		case leaf.fields == nil:
			w.wantDump(t, several[i], "nothing")
		default:
			dump := "hash"
			for j := 0; j < len(leaf.fields); j += 2 {
				dump += " " + leaf.fields[j] + "=" + leaf.fields[j+1]
			}
			w.wantDump(t, several[i], dump)
			w.wantTTL(t, several[i], leaf.ttl)
		}
	}
}

func of(ttl time.Duration, fields ...string) leaf { return leaf{fields: fields, ttl: ttl} }

var empty, number = leaf{}, leaf{text: true}

// multiAnswer is the result of MultiAcquire.
type multiAnswer struct {
	answer
	at int
}

func acquireSeveral(ctx context.Context, d driver.Driver) multiAnswer {
	ok, at, by, err := script.MultiAcquire(ctx, d, several, me, lease, false)
	return multiAnswer{answered(ok, by, err), at}
}

func TestMultiAcquire(t *testing.T) {
	server := single(t)
	mine := of(lease, me, "1")
	for _, r := range []struct {
		name  string
		setup lot
		want  multiAnswer
		after lot
	}{
		{"free", lot{}, multiAnswer{answer: yes}, lot{mine, mine, mine}},
		{"mine", lot{mine, mine, mine}, multiAnswer{answer: yes}, lot{mine, mine, mine}},
		{"mine, re-entered, longer, without TTL", lot{of(time.Minute, me, "3"), of(10*time.Minute, me, "1"), of(none, me, "1")},
			multiAnswer{answer: yes}, lot{of(lease, me, "3"), of(10*time.Minute, me, "1"), mine}},
		{"mine and free", lot{mine, empty, mine}, multiAnswer{answer: yes}, lot{mine, mine, mine}},
		{"the first is held", lot{of(lease, java, "1")}, multiAnswer{heldBy(java, 1, lease), 0}, lot{of(lease, java, "1")}},
		{"the last is held", lot{empty, empty, of(10*time.Minute, java, "17")}, multiAnswer{heldBy(java, 17, 10*time.Minute), 2}, lot{empty, empty, of(10*time.Minute, java, "17")}},
		{"two are held", lot{empty, of(none, javaN, "1"), of(lease, java, "1")}, multiAnswer{heldBy(javaN, 1, -1), 1}, lot{empty, of(none, javaN, "1"), of(lease, java, "1")}},
		{"mine and held", lot{of(time.Minute, me, "2"), empty, of(lease, mine2, "1")}, multiAnswer{heldBy(mine2, 1, lease), 2}, lot{of(time.Minute, me, "2"), empty, of(lease, mine2, "1")}},
		{"count that is no number", lot{empty, of(lease, java, "many")}, multiAnswer{heldBy(java, -1, lease), 1}, lot{empty, of(lease, java, "many")}},
		{"read lock", lot{empty, of(lease, java, "1", "mode", "read")}, multiAnswer{refused("kind"), 1}, lot{empty, of(lease, java, "1", "mode", "read")}},
		{"string", lot{empty, empty, number}, multiAnswer{refused("kind"), 2}, lot{empty, empty, number}},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				check := func(got multiAnswer) {
					t.Helper()
					w.wantAnswer(t, got.answer, r.want.answer)
					if got.at != r.want.at {
						t.Errorf("lock %d is in the way, want %d", got.at, r.want.at)
					}
					r.after.want(t, w)
				}
				r.setup.put(t, w)
				check(acquireSeveral(t.Context(), w))
				check(acquireSeveral(t.Context(), w))
				r.setup.put(t, w)
				if got := acquireSeveral(t.Context(), lossy{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				check(acquireSeveral(t.Context(), w))
			})
		})
	}
}

// released reports whether a lock was held until it was released.
func released(became script.Released, err error) (bool, error) { return became != script.NotHeld, err }

// freed reports which of several locks were held until they were released.
func freed(released []script.Released) (held []bool) {
	for _, r := range released {
		held = append(held, r != script.NotHeld)
	}
	return held
}

func releases(owners ...string) (locks []script.Release) {
	for i, owner := range owners {
		locks = append(locks, script.Release{Key: several[i], Owner: owner, Channel: keyspace.LockChannel(several[i])})
	}
	return locks
}

func TestMultiRelease(t *testing.T) {
	server := single(t)
	mine := of(lease, me, "1")
	for _, r := range []struct {
		name   string
		setup  lot
		owners []string
		want   []bool
		after  lot
	}{
		{"mine", lot{mine, mine, mine}, []string{me, me, me}, []bool{true, true, true}, lot{}},
		{"whatever the count", lot{of(lease, me, "7"), of(none, me, "x"), of(lease, mine2, "2")}, []string{me, me, mine2}, []bool{true, true, true}, lot{}},
		{"free", lot{}, []string{me, me, me}, []bool{false, false, false}, lot{}},
		{"one is gone", lot{mine, empty, mine}, []string{me, me, me}, []bool{true, false, true}, lot{}},
		{"one is taken", lot{mine, of(lease, java, "2"), mine}, []string{me, me, me}, []bool{true, false, true}, lot{empty, of(lease, java, "2"), empty}},
		{"another number of this client", lot{of(none, mine2, "1"), mine, mine}, []string{me, me, me}, []bool{false, true, true}, lot{of(none, mine2, "1")}},
		{"one is no hash", lot{mine, number, mine}, []string{me, me, me}, []bool{true, false, true}, lot{empty, number, empty}},
		{"read lock", lot{of(lease, java, "1", "mode", "read"), mine, mine}, []string{me, me, me}, []bool{false, true, true}, lot{of(lease, java, "1", "mode", "read")}},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				var subs [3]*subscriber
				for i, key := range several {
					subs[i] = w.listen(t, keyspace.LockChannel(key), false)
				}
				told := func(want []bool) {
					t.Helper()
					r.after.want(t, w)
					for i, e := range subs {
						if want[i] {
							e.want(t, "0")
						} else {
							e.want(t)
						}
					}
				}
				release := func(want []bool) {
					t.Helper()
					got, err := script.MultiRelease(t.Context(), w, releases(r.owners...), script.Classic)
					if err != nil || !slices.Equal(freed(got), want) {
						t.Errorf("released %v, %v, want %v", got, err, want)
					}
				}
				nothing := make([]bool, 3)
				r.setup.put(t, w)
				release(r.want)
				told(r.want)
				release(nothing)
				told(nothing)

				r.setup.put(t, w)
				if _, err := script.MultiRelease(t.Context(), lossy{w}, releases(r.owners...), script.Classic); driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want the class unknown", err)
				}
				release(nothing)
				told(r.want)
			})
		})
	}
}

// When owners acquire overlapping lots at the same time, no two hold the same lock.
func TestMultiAcquireOverlapping(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		got := 0
		for i := range 3 {
			ok, _, _, err := script.MultiAcquire(t.Context(), w, []string{several[i], several[(i+1)%3]}, fmt.Sprintf("%s%d", me, i), lease, false)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got++
			}
		}
		if got != 1 {
			t.Errorf("%d got their lots, want 1", got)
		}
	})
}
