package script

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var inspect = load("inspect")

// Limits on what Inspect reads, since any client may have written the data: the number
// of fields, waiters or permits, the bytes of a hash, and the names in a batch.
const (
	maxListed    = 1000
	maxBytes     = 256 << 10 // the value of an election has up to 64 KiB
	InspectBatch = 50
)

// Key is the content of the key of a name, and of the other keys of its object.
type Key struct {
	Type   string            // as TYPE says; "none" if there is nothing
	TTL    time.Duration     // -1 if it has none
	Size   int               // the number of fields of a hash, or of the permits of a semaphore
	Fields map[string]string // if they are too many or too long: the mode, and some others
	Text   string            // the beginning of a string

	Token   string // the newest fencing token; "" if there is none
	Queue   []Due  // the waiters for a fair lock, the next one first
	Permits []Due  // the permits of a semaphore, by their raw ids
}

// Unlisted returns how many fields of a hash, or permits of a semaphore, are left out.
func (k *Key) Unlisted() int { return max(0, k.Size-len(k.Fields)-len(k.Permits)) }

// Due is an owner or a permit whose time is limited.
type Due struct {
	ID   string
	Left time.Duration // negative if its time is over
	Ever bool          // it has no limit
}

// Inspect reads the contents of names, in one batch, or in two: then other keys of
// an object that the user has no right to read are left out. Result i belongs to name
// i. Of more than a thousand fields, waiters or permits, or of a hash of more than 256 KiB, some are left
// out: of a hash any, but not its mode. There should be at most [InspectBatch] names.
func Inspect(ctx context.Context, d driver.Driver, names ...string) []InspectResult {
	calls := inspections(names)
	return inspectedAll(readAlone(ctx, d, calls, d.Batch(ctx, calls), denied))
}

// InspectMoving is Inspect for names whose slot may be on its way to another server, with some of the keys
// of an object, for long: of these it reads the key of the name only.
func InspectMoving(ctx context.Context, d driver.Driver, names ...string) []InspectResult {
	calls := inspections(names)
	return inspectedAll(readAlone(ctx, d, calls, d.Batch(ctx, calls), func(err error) bool { return denied(err) || split(err) }))
}

func denied(err error) bool { return driver.ClassOf(err) == driver.Denied }

// split reports whether a script has failed because its keys are on two servers at the moment.
func split(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && strings.HasPrefix(e.Reply, "TRYAGAIN")
}

// inspections returns the calls that inspect names.
func inspections(names []string) []driver.Call {
	calls := make([]driver.Call, len(names))
	for i, name := range names {
		keys := []string{name}
		if keyspace.CheckSlot(name) == nil { // else they may be on another server
			keys = append(keys, keyspace.FairQueue(name), keyspace.FairDeadlines(name), keyspace.Token(name), keyspace.PermitExpiries(name))
		}
		calls[i] = driver.Call{Script: inspect, Keys: keys, Args: []string{strconv.Itoa(maxListed), strconv.Itoa(maxBytes)}}
	}
	return calls
}

// readAlone returns replies, after another batch for the calls that have failed for a reason that lies
// with keys other than the first: these are left out.
func readAlone(ctx context.Context, d driver.Driver, calls []driver.Call, replies []driver.Result, others func(error) bool) []driver.Result {
	var alone []driver.Call
	var places []int
	for i, r := range replies {
		if r.Err != nil && len(calls[i].Keys) > 1 && others(r.Err) {
			calls[i].Keys = calls[i].Keys[:1]
			alone, places = append(alone, calls[i]), append(places, i)
		}
	}
	if len(alone) > 0 {
		for j, r := range d.Batch(ctx, alone) {
			replies[places[j]] = r
		}
	}
	return replies
}

func inspectedAll(replies []driver.Result) []InspectResult {
	results := make([]InspectResult, len(replies))
	for i, r := range replies {
		results[i] = inspected(r)
	}
	return results
}

// inspected reads the reply for one name.
func inspected(r driver.Result) InspectResult {
	list, queue, permits := r.Value.At(3), r.Value.At(5), r.Value.At(6)
	switch {
	case r.Err != nil:
		return InspectResult{Err: r.Err}
	case !is(r.Value, "siiasaa") || !texts(list) || !texts(queue) || !texts(permits):
		return InspectResult{Err: unexpected(inspect, r.Value)}
	}
	k := Key{
		Type: r.Value.At(0).Str(), TTL: ttl(r.Value.At(1)), Size: int(r.Value.At(2).Int()),
		Token: r.Value.At(4).Str(), Queue: dues(queue), Permits: dues(permits),
	}
	if k.Type == "string" {
		k.Text = list.At(0).Str()
	}
	k.Fields = make(map[string]string, list.Len()/2)
	for j := 0; j+1 < list.Len(); j += 2 {
		k.Fields[list.At(j).Str()] = list.At(j + 1).Str()
	}
	return InspectResult{Key: k}
}

func dues(v driver.Value) (list []Due) {
	for i := 0; i+1 < v.Len(); i += 2 {
		d := Due{ID: v.At(i).Str()}
		ms, err := strconv.ParseInt(v.At(i+1).Str(), 10, 64)
		if d.Ever = err != nil || ms > forever; !d.Ever {
			d.Left = span(ms)
		}
		list = append(list, d)
	}
	return list
}

// forever is more milliseconds than any lease lasts: a hundred years. Redisson
// writes the instant 922337203685477 for a lease without limit.
const forever = 100 * 366 * 24 * 60 * 60 * 1000

// InspectResult is the outcome for one key of [Inspect].
type InspectResult struct {
	Key Key
	Err error
}
