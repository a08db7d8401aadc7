package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/gentle"
	"github.com/mortise-go/mortise/internal/keyspace"
)

//go:embed lua/queue.lua
var queueText string

var lookAtQueue = driver.NewScript("doctor_queue", queueText)

// grace is how long a thread of Redisson's may take from queueing to subscribing, as in fair.lua.
const grace = time.Second

// queues looks at the queues of fair locks, twice.
func (e *exam) queues(ctx context.Context, keys []string) {
	const id = "fair-queue-dead"
	var all []string
	for _, key := range keys {
		if name := queueName(key); name != "" && strings.HasPrefix(name, e.o.Prefix) {
			all = append(all, name)
		}
	}
	dead, failed := e.gone(ctx, all)
	if len(dead) > 0 && gentle.Sleep(ctx, grace) == nil {
		var again map[string][]string
		again, failed = e.gone(ctx, slices.Sorted(maps.Keys(dead)))
		dead = inBoth(dead, again)
	}
	var names []string
	count := 0
	for name, waiters := range dead {
		count += len(waiters)
		names = append(names, strings.TrimPrefix(name, e.o.Prefix))
	}
	slices.Sort(names)
	switch {
	case len(names) > 0:
		f := Finding{
			ID: id, Group: GroupKeys, Severity: Warning, Found: fmt.Sprintf("waiters that are gone, in the queues of fair locks: %d, of %s. They may keep others waiting", count, listed(names)),
			Do:      "They go by themselves once a client of mortise's waits for the lock, or at their deadlines. Or remove them.",
			Command: e.mortise("doctor --fix " + id), Fixable: true,
		}
		e.add(f.about(names))
	case failed != nil:
		e.add(e.withoutRights(id, GroupKeys, failed, KindFair))
	default:
		e.add(Finding{ID: id, Group: GroupKeys, Severity: OK, Found: "all waiters in the queues of fair locks that were looked at live"})
	}
	e.fix(ctx, id, names, func(ctx context.Context, name string) (string, error) {
		_, n, err := e.queue(ctx, e.o.Prefix+name, dead[e.o.Prefix+name]...)
		if err != nil || n == 0 {
			return "", err
		}
		return "removed " + several(n, "waiter") + " from the queue", nil
	})
}

// gone returns the waiters that are gone at this moment, by the names of the locks; or the last error, if
// some could not be read.
func (e *exam) gone(ctx context.Context, names []string) (map[string][]string, error) {
	gone := make(map[string][]string)
	var failed error
	for _, name := range names {
		waiters, _, err := e.queue(ctx, name)
		if err != nil && !foreign(err) {
			failed = err
		}
		if len(waiters) > 0 {
			gone[name] = waiters
		}
	}
	return gone, failed
}

// foreign reports whether a script has failed because of what the keys hold, or are called: they are not those
// of a lock.
func foreign(err error) bool {
	switch classOf(err) {
	case driver.WrongType, driver.CrossSlot, driver.Other:
		return true
	}
	return false
}

// inBoth returns the waiters that are in both.
func inBoth(a, b map[string][]string) map[string][]string {
	both := make(map[string][]string)
	for name, waiters := range a {
		waiters = slices.DeleteFunc(waiters, func(w string) bool { return !slices.Contains(b[name], w) })
		if len(waiters) > 0 {
			both[name] = waiters
		}
	}
	return both
}

// queue returns the waiters of a fair lock that are gone, and how many of the given ones it has removed.
func (e *exam) queue(ctx context.Context, name string, remove ...string) (gone []string, removed int, err error) {
	probe := "numsub"
	switch {
	case e.topology.Sharded:
		probe = "shardnumsub"
	case e.topology.Cluster:
		probe = "" // the subscribers may be those of another server
	}
	v, err := e.d.Eval(ctx, driver.Call{
		Script: lookAtQueue,
		Keys:   []string{keyspace.FairQueue(name), keyspace.FairDeadlines(name), keyspace.FairOurs(name), keyspace.FairSigns(name), name},
		Args:   append([]string{probe, keyspace.FairChannel(name, ""), strings.Join(e.announce(), " ")}, remove...),
	})
	for i := 1; i < v.Len(); i++ {
		gone = append(gone, v.At(i).Str())
	}
	return gone, int(v.At(0).Int()), err
}

// queueName returns the name of the lock that a key is the queue of; empty if it is none.
func queueName(key string) string {
	name := strings.TrimPrefix(key, strings.TrimSuffix(keyspace.FairQueue("{"), "{"))
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && keyspace.FairQueue(inner) == key {
			return inner
		}
	}
	if keyspace.FairQueue(name) == key {
		return name
	}
	return ""
}
