package script

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	clientRecord = load("client_record")
	clientRead   = load("client_read")
	clientIndex  = load("client_index")
	clientList   = load("client_list")
	clientAsk    = load("client_ask")
)

// ClientOf returns the UUID of the client of an owner.
func ClientOf(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return id
}

// ClientWrite is a write of the record of a client.
type ClientWrite struct {
	Key     string
	Body    string // empty to delete the record
	Edition uint64 // a higher one is newer
	TTL     time.Duration
	Seen    []ClientRequest // those that the client has seen
}

// ClientRequest is what a client was asked.
type ClientRequest struct{ Lease, Text string }

// requestWords returns requests as arguments.
func requestWords(requests []ClientRequest) (words []string) {
	for _, r := range requests {
		words = append(words, r.Lease, r.Text)
	}
	return words
}

// WriteClient writes the record of a client, and returns the server's time and what the client is
// asked.
func WriteClient(ctx context.Context, d driver.Driver, w ClientWrite) (now time.Time, asked []ClientRequest, err error) {
	args := append([]string{w.Body, strconv.FormatUint(w.Edition, 10), millis(w.TTL)}, requestWords(w.Seen)...)
	v, err := d.Eval(ctx, driver.Call{Script: clientRecord, Keys: []string{w.Key}, Args: args})
	if err != nil {
		return time.Time{}, nil, err
	}
	if !texts(v) || v.Len()%2 != 1 {
		return time.Time{}, nil, unexpected(clientRecord, v)
	}
	for i := 1; i+1 < v.Len(); i += 2 {
		asked = append(asked, ClientRequest{v.At(i).Str(), v.At(i + 1).Str()})
	}
	return instant(v.At(0).Str()), asked, nil
}

// ClientText is the record of a client as it was read.
type ClientText struct {
	Body    string // empty if there is none
	Now     time.Time
	At      time.Time // when it was written
	Edition uint64
	Asked   []ClientRequest // that the client has not seen yet, or a moment ago
	Err     error
}

// ReadClients reads records, in one batch. Result i belongs to key i.
func ReadClients(ctx context.Context, d driver.Driver, longest int, keys ...string) []ClientText {
	calls := make([]driver.Call, len(keys))
	for i, key := range keys {
		calls[i] = driver.Call{Script: clientRead, Keys: []string{key}, Args: []string{strconv.Itoa(longest)}}
	}
	list := make([]ClientText, len(keys))
	for i, r := range d.Batch(ctx, calls) {
		switch v := r.Value; {
		case r.Err != nil:
			list[i].Err = r.Err
		case !texts(v) || v.Len() < 4 || v.Len()%2 != 0:
			list[i].Err = unexpected(clientRead, v)
		default:
			list[i] = ClientText{Body: v.At(1).Str(), Now: instant(v.At(0).Str()), At: instant(v.At(2).Str())}
			list[i].Edition, _ = strconv.ParseUint(v.At(3).Str(), 10, 64)
			for j := 4; j < v.Len(); j += 2 {
				list[i].Asked = append(list[i].Asked, ClientRequest{v.At(j).Str(), v.At(j + 1).Str()})
			}
			slices.SortFunc(list[i].Asked, func(a, b ClientRequest) int { return strings.Compare(a.Lease, b.Lease) })
		}
	}
	return list
}

// IndexClient notes that the record of a client lasts for ttl, or is deleted if that is 0. It
// returns the server's time.
func IndexClient(ctx context.Context, d driver.Driver, index, client string, ttl time.Duration) (time.Time, error) {
	v, err := d.Eval(ctx, driver.Call{Script: clientIndex, Keys: []string{index}, Args: []string{client, millis(ttl)}})
	if err != nil {
		return time.Time{}, err
	}
	if !is(v, "s") {
		return time.Time{}, unexpected(clientIndex, v)
	}
	return instant(v.At(0).Str()), nil
}

// ListClients returns the clients that have records, most at most.
func ListClients(ctx context.Context, d driver.Driver, index string, most int) (list []string, err error) {
	v, err := d.Eval(ctx, driver.Call{Script: clientList, Keys: []string{index}, Args: []string{strconv.Itoa(most)}})
	if err != nil {
		return nil, err
	}
	if !headed(v) {
		return nil, unexpected(clientList, v)
	}
	for i := 1; i < v.Len(); i++ {
		list = append(list, v.At(i).Str())
	}
	return list, nil
}

// AskClient asks a client to release a lease. It reports false if the client has no record.
func AskClient(ctx context.Context, d driver.Driver, record, channel, lease, text string, p Publish) (bool, error) {
	v, err := d.Eval(ctx, driver.Call{Script: clientAsk, Keys: []string{record}, Args: append([]string{lease, text, channel}, p.commands()...)})
	if err != nil {
		return false, err
	}
	if !states(v, 0, 1) || v.Len() != 1 {
		return false, unexpected(clientAsk, v)
	}
	return v.At(0).Int() == 1, nil
}

// year9999 is the end of the last year that every form of a time can show, in ms since the epoch.
const year9999 = 253_402_300_799_999

// instant returns the time that is text ms after the epoch, and the zero time if it is no number.
func instant(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms <= 0 || ms > year9999 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

var turnsRead = load("turns_read")

// TurnsTaken lists the clients that take turns for a lock.
type TurnsTaken struct {
	Clients   []string // the UUIDs of mortise's clients that wait, in their order
	Listeners int      // the number of Redisson clients that listen for a release; -1 if it is unknown
}

// ReadTurns reads the turns of a lock, at most a thousand. Listeners are those for a lock or a
// read/write lock of that name.
func (c *Conn) ReadTurns(ctx context.Context, name string) (t TurnsTaken, err error) {
	probe := ""
	switch {
	case !c.Cluster():
		probe = "numsub"
	case c.Publish() == Sharded:
		probe = "shardnumsub"
	}
	v, err := c.driver.Eval(ctx, driver.Call{Script: turnsRead, Keys: []string{keyspace.Turns(name)},
		Args: []string{probe, strconv.Itoa(maxListed), keyspace.LockChannel(name), keyspace.RWChannel(name)}})
	if err != nil {
		return t, err
	}
	if !headed(v) {
		return t, unexpected(turnsRead, v)
	}
	t.Listeners = int(v.At(0).Int())
	for i := 1; i < v.Len(); i++ {
		t.Clients = append(t.Clients, ClientOf(strings.TrimPrefix(v.At(i).Str(), "?")))
	}
	return t, nil
}
