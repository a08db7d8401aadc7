package script

import (
	"context"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
)

var inspect = load("inspect")

// maxFields bounds what Inspect reads of a hash that may be anybody's.
const maxFields = 1000

// Key is what lies under a name.
type Key struct {
	Type   string        // as TYPE says; "none" if there is nothing
	TTL    time.Duration // -1 if it has none
	Size   int           // the number of a hash's fields
	Fields map[string]string
}

// Inspect reads what lies under each of keys, in one batch. Result i belongs
// to key i. A hash of more than a thousand fields comes without its fields.
func Inspect(ctx context.Context, d driver.Driver, keys ...string) []InspectResult {
	calls := make([]driver.Call, len(keys))
	for i, key := range keys {
		calls[i] = driver.Call{Script: inspect, Keys: []string{key}, Args: []string{strconv.Itoa(maxFields)}}
	}
	results := make([]InspectResult, len(keys))
	for i, r := range d.Batch(ctx, calls) {
		if results[i].Err = r.Err; r.Err != nil {
			continue
		}
		if r.Value.Len() < 3 {
			results[i].Err = unexpected(inspect, r.Value)
			continue
		}
		k := Key{Type: r.Value.At(0).Str(), TTL: ttl(r.Value.At(1)), Size: int(r.Value.At(2).Int())}
		k.Fields = make(map[string]string, (r.Value.Len()-3)/2)
		for j := 3; j+1 < r.Value.Len(); j += 2 {
			k.Fields[r.Value.At(j).Str()] = r.Value.At(j + 1).Str()
		}
		results[i].Key = k
	}
	return results
}

// InspectResult is the outcome for one key of [Inspect].
type InspectResult struct {
	Key Key
	Err error
}
