//go:build server

package script_test

import (
	"slices"
	"testing"

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
			ok, err := released(script.LockRelease(t.Context(), d, job, me, channel, script.Classic, script.Turns{Command: "publish", Row: test.row}))
			if !ok || err != nil {
				t.Errorf("release: %v, %v, want true", ok, err)
			}
			w.wantDump(t, job, test.after)
			sub.want(t, test.turn...)
			all.want(t, test.others...)
		})
	}
}
