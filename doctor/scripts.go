package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// probe is the name under which the examination tries things. There is no such lock.
const probe = "mortise-doctor"

// scripts runs a script some times on each server, by its digest.
func (e *exam) scripts(ctx context.Context) {
	const (
		runs       = 10
		slow, hung = 20 * time.Millisecond, 200 * time.Millisecond
	)
	var worst []time.Duration
	for _, key := range e.keys() {
		var took []time.Duration
		for range runs {
			start := time.Now()
			if _, err := e.eval(ctx, nothing, key); err != nil {
				e.add(e.scriptless(err))
				return
			}
			took = append(took, time.Since(start))
		}
		took = took[1:] // the first one may have sent its text
		slices.Sort(took)
		if worst == nil || took[len(took)/2] > worst[len(worst)/2] {
			worst = took
		}
	}
	e.add(Finding{ID: "scripts", Group: GroupServer, Severity: OK, Found: "scripts run, by their digests, and are sent again where the server has forgotten them"})
	middle, longest := worst[len(worst)/2], worst[len(worst)-1]
	f := Finding{ID: "script-latency", Group: GroupServer, Severity: OK, Found: fmt.Sprintf("a script takes %s there and back, %s at most", short(middle), short(longest))}
	if middle > slow {
		f.Severity = Warning
		if middle > hung {
			f.Severity = Critical
		}
		f.Do = "Each acquisition takes that long at least. Look at the way to the server, at what else it does, and at its slow log."
		f.Command = e.cli("", "--latency") + "\n" + e.cli("", "slowlog get 10")
	}
	e.add(f)
}

// scriptless returns the finding for a server that runs no scripts.
func (e *exam) scriptless(err error) Finding {
	f := Finding{ID: "scripts", Group: GroupServer, Severity: Critical, Found: "scripts fail: " + said(err), Do: "Locks are scripts. See what the server says about it in its log."}
	switch {
	case mayNot(err):
		f = e.unknown("scripts", GroupServer, err, "eval", "evalsha")
		f.Severity, f.Found = Critical, "the user may not run scripts, and locks are scripts"
		f.Do = "Allow it: mortise acl prints all the rights that locks need."
		f.Command = e.acl(e.narrowest()...)
	case classOf(err) == driver.Passing:
		f.Found, f.Do = "the server runs no scripts at the moment: "+said(err), "Wait until it has recovered, or see why it has not."
	}
	return f
}

// errPage ends a listing of keys after a page.
var errPage = errors.New("one page")

// learn makes the driver of a cluster know which master serves which keys: listing keys does. If the user
// may not, some servers are left out.
func (e *exam) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if scanner, ok := e.d.(driver.Scanner); ok && e.topology.Cluster {
		_ = scanner.Scan(ctx, "*", func([]string) error { return errPage }) // see above
	}
}

// silent reports the servers of a cluster that do not answer. What is examined with scripts leaves them out.
func (e *exam) silent(context.Context) {
	if !e.topology.Cluster {
		return
	}
	shards := e.shards()
	for _, s := range e.servers {
		if !s.isSilent() {
			continue
		}
		f := Finding{ID: "silent-server", Group: GroupServer, Server: s.addr, Severity: Warning, Found: "it does not answer; it serves no slots", Command: e.cli(s.addr, "ping")}
		if _, serves := shards[s.addr]; serves {
			f.Severity, f.Found = Critical, "it does not answer: nothing in its slots can be locked, renewed or released"
			f.Do = "See whether it hangs or is cut off from here. A replica of it takes over if the other servers miss it, too."
		}
		e.add(f)
	}
}

// isSilent reports whether the server was asked and has not answered.
func (s *server) isSilent() bool {
	var failed *driver.Error
	return errors.As(s.err, &failed) && (failed.Class == driver.NotSent || failed.Class == driver.Unknown)
}

// keys returns a name for each server that serves slots and answers; an empty one if there is only one server.
func (e *exam) keys() []string {
	if !e.topology.Cluster {
		return []string{""}
	}
	shards := e.shards()
	for _, s := range e.servers {
		if s.isSilent() && len(shards) > 1 {
			delete(shards, s.addr)
		}
	}
	return slices.Sorted(maps.Values(shards))
}

// shards returns a name in a slot of each server that serves some.
func (e *exam) shards() map[string]string {
	const tries = 20_000 // more than there are slots
	keys := make(map[string]string)
	for i := range tries {
		key := fmt.Sprintf("%s%s:{%d}", e.o.Prefix, probe, i)
		if shard := e.d.Shard(key); keys[shard] == "" {
			keys[shard] = key
		}
	}
	return keys
}
