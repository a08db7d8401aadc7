//go:build server

package script_test

import (
	"net"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// grants are the releases that grant a lock to ann.
var grants = map[string]struct {
	own     string // the client's channel
	release func(f fair) error
}{
	"Lock": {keyspace.TurnChannel(job, ann), func(f fair) error {
		f.hold(f.t, job, lease, me, "1")
		f.queueUp(f.t, anns, "?"+ann+":2")
		_, err := script.LockRelease(f.t.Context(), f, job, me, script.Classic, script.Turns{Command: "publish"})
		return err
	}},
	"forced": {keyspace.TurnChannel(job, ann), func(f fair) error {
		f.hold(f.t, job, lease, me, "1")
		f.queueUp(f.t, anns)
		_, err := script.LockForce(f.t.Context(), f, job, me, script.Classic, script.Turns{Command: "publish"})
		return err
	}},
	"several": {keyspace.TurnChannel(job, ann), func(f fair) error {
		f.hold(f.t, job, lease, me, "1")
		f.queueUp(f.t, anns)
		_, err := script.MultiRelease(f.t.Context(), f, []script.Release{{Key: job, Owner: me, Channel: channel, Turns: script.Turns{Command: "publish"}}}, script.Classic)
		return err
	}},
	"FairLock": {keyspace.FairTurnChannel(job, ann), func(f fair) error {
		f.gets(me, script.FairOnce)
		f.waits(anns, false)
		_, _, err := script.FairRelease(f.t.Context(), f, f.Fair, me)
		return err
	}},
}

// A client may listen to a replica, as after a failover that left its connection alone. PUBLISH does not count it, and
// reaches it all the same. So a release tells it nothing that is not true when the script ends.
func TestNoGrantToAListenerOfAReplicaIsTakenBack(t *testing.T) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	for name, test := range grants {

		for _, counted := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", nobody can be counted"}[counted], func(t *testing.T) {
				w := realWorld(t, master)
				w.must(t, "WAIT", "1", "60000")
				there := newWorld(t, nil, func() net.Conn {
					c, err := net.Dial("tcp", replica.Addr())
					if err != nil {
						t.Fatal(err)
					}
					return c
				})
				far := there.listen(t, test.own, false)
				if !counted {
					w.must(t, "ACL", "SETUSER", "default", "-pubsub")
					defer w.must(t, "ACL", "SETUSER", "default", "+pubsub")
				}
				if err := test.release(fair{w, t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}); err != nil {
					t.Fatal(err)
				}
				w.must(t, "PUBLISH", test.own, last) // the replica passes messages on in the order of the master
				var holders []string
				for keys := w.must(t, "HKEYS", job); len(holders) < keys.Len(); {
					holders = append(holders, keys.At(len(holders)).Str())
				}
				for m := range far.messages {
					if m == last {
						break
					}
					if id, _, ok := strings.Cut(m, " "); ok && (len(holders) != 1 || holders[0] != id) {
						t.Errorf("the replica passed on %q, while %q hold the lock", m, holders)
					}
				}
				if counted && len(holders) != 0 {
					t.Errorf("%q hold the lock, though nobody listens to the master", holders)
				}
			})
		}
	}
}
