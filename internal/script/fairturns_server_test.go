//go:build server

package script_test

import (
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// Redis may refuse to publish. Then the lock is free, and the head is not lost.
func TestFairReleaseWhereTheMessageIsRefused(t *testing.T) {
	server := redistest.Single(t)
	for name, rules := range map[string][]string{
		"no channel": {"resetchannels"}, "no PUBLISH": {"-publish"}, "no PUBLISH and no DEL": {"-publish", "-del"}, "no PEXPIRE": {"-pexpire"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}
			sub := f.listen(t, keyspace.FairTurnChannel(job, ann), false)
			f.gets(me, script.FairOnce)
			f.waits(anns, false)
			f.waits(bobs, false)
			d := f.login(t, append([]string{"+@all", "~*", "&*"}, rules...)...)
			released, _, err := script.FairRelease(t.Context(), d, f.Fair, me)
			if name != "no PEXPIRE" && (!released || err == nil) {
				t.Errorf("release: %v, %v, want true and the refusal", released, err)
			}
			f.wantDump(t, job, "nothing")
			f.wantQueue(anns, ahead, bobs, ahead)
			if name != "no PEXPIRE" {
				sub.want(t)
			}
			f.gets(anns, script.FairAgain)
		})
	}
}
