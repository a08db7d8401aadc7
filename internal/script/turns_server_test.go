//go:build server

package script_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// Whatever Redis refuses of a turn, the lock is released, and no client has it without
// knowing.
func TestReleaseWhereTurnsAreRefused(t *testing.T) {
	server := redistest.Single(t)
	everything := []string{"+@all", "~*", "&*"}
	for name, test := range map[string]struct {
		rules  []string
		turns  string
		row    int
		after  string
		others []string // received on Redisson's channel
		turn   []string // on the channel of ann
	}{
		"no ZPOPMIN":                     {rules: []string{"-zpopmin"}, turns: anns, after: "nothing", others: []string{"0"}},
		"no HSET":                        {rules: []string{"-hset"}, turns: anns, after: "nothing", others: []string{"0"}},
		"no PEXPIRE":                     {rules: []string{"-pexpire"}, turns: anns, after: "nothing", others: []string{"0"}},
		"no PEXPIRE and no DEL":          {rules: []string{"-pexpire", "-del"}, turns: anns, after: "nothing", others: []string{"0"}},
		"no channel of the client's":     {rules: []string{"resetchannels", "&" + channel}, turns: anns, after: "nothing", others: []string{"0"}},
		"no channel and no DEL":          {rules: []string{"resetchannels", "&" + channel, "-del"}, turns: anns, after: "nothing", others: []string{"0"}},
		"no channel to tell":             {rules: []string{"resetchannels", "&" + channel}, turns: "?" + anns, after: "nothing", others: []string{"0"}},
		"nobody listens, and no DEL":     {rules: []string{"-del"}, turns: bobs, after: "nothing", others: []string{"0"}},
		"no PUBSUB":                      {rules: []string{"-pubsub"}, turns: anns, row: 3, after: "hash " + anns + "=1", others: []string{"00"}, turn: []string{anns + " 4"}},
		"no PUBSUB, and nobody listens":  {rules: []string{"-pubsub"}, turns: bobs, row: 3, after: "hash " + bobs + "=1", others: []string{"00"}},
		"no PUBSUB, fourth in a row":     {rules: []string{"-pubsub"}, turns: anns, row: 4, after: "nothing", others: []string{"000"}, turn: []string{"~"}},
		"no PUBSUB and ZADD, fourth":     {rules: []string{"-pubsub", "-zadd"}, turns: anns, row: 4, after: "nothing", others: []string{"000"}, turn: []string{"~"}},
		"no PUBSUB, no channel, fourth":  {rules: []string{"-pubsub", "resetchannels", "&" + channel}, turns: anns, row: 4, after: "nothing", others: []string{"000"}},
		"no right to Redisson's channel": {rules: []string{"resetchannels", "&" + keyspace.TurnChannel(job, "") + "*"}, turns: anns, after: "hash " + anns + "=1", turn: []string{anns + " 1"}},
		"no DEL, and a subscriber":       {rules: []string{"-del"}, turns: anns, after: "hash " + anns + "=1", turn: []string{anns + " 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			all, sub := w.listen(t, channel, false), w.listen(t, keyspace.TurnChannel(job, ann), false)
			w.hold(t, job, lease, me, "1")
			w.queueUp(t, test.turns)
			d := w.login(t, append(slices.Clone(everything), test.rules...)...)
			ok, err := released(script.LockRelease(t.Context(), d, job, me, script.Classic, script.Turns{Command: "publish", Row: test.row}))
			if !ok || err != nil {
				t.Errorf("release: %v, %v, want true", ok, err)
			}
			w.wantDump(t, job, test.after)
			sub.want(t, test.turn...)
			all.want(t, test.others...)
		})
	}
}

// A user with the rights to a lock, and none to its turns, can acquire it, and so it can release it:
// what it is told is that no turn was served. Without the right to the lock nothing is released.
func TestReleaseWithoutTheRightToTheTurns(t *testing.T) {
	server := redistest.Single(t)
	turns := script.Turns{Command: "publish"}
	for name, release := range map[string]func(ctx context.Context, d driver.Driver) (bool, error){
		"Lock": func(ctx context.Context, d driver.Driver) (bool, error) {
			return released(script.LockRelease(ctx, d, job, me, script.Classic, turns))
		},
		"several": func(ctx context.Context, d driver.Driver) (bool, error) {
			all, err := script.MultiRelease(ctx, d, []script.Release{{Key: job, Owner: me, Channel: channel, Turns: turns}}, script.Classic)
			return len(all) == 1 && all[0] != script.NotHeld, err
		},
	} {
		for rule, frees := range map[string]bool{"~" + job: true, "~nothing": false} {
			t.Run(name+" "+rule, func(t *testing.T) {
				w := realWorld(t, server)
				held(time.Minute, me, "1")(t, w)
				sub := w.listen(t, channel, false)
				ok, err := release(t.Context(), w.login(t, "+@all", "&*", rule))
				if ok != frees || err == nil || driver.ClassOf(err) != driver.Denied || strings.Contains(err.Error(), "released") != frees {
					t.Errorf("got %v, %v, want released %v and an error of class denied", ok, err, frees)
				}
				if frees {
					w.wantDump(t, job, "nothing")
					sub.want(t, "0")
				} else {
					w.wantDump(t, job, "hash "+me+"=1")
					sub.want(t)
				}
			})
		}
	}
}
