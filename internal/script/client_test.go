package script_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var (
	record  = keyspace.ClientRecord("", ann)
	index   = keyspace.ClientIndex("")
	askNews = keyspace.ClientChannel("", ann)
)

const (
	recordTTL = 10 * time.Minute // long, so that the real time does not matter
	longest   = 1000             // of a body
)

// write is a write of a client that has seen these requests, each a lease and a text.
func write(edition uint64, body string, seen ...string) script.ClientWrite {
	w := script.ClientWrite{Key: record, Body: body, Edition: edition, TTL: recordTTL}
	for i := 0; i+1 < len(seen); i += 2 {
		w.Seen = append(w.Seen, script.ClientRequest{Lease: seen[i], Text: seen[i+1]})
	}
	return w
}

// recorded puts a record there, with pairs of other fields and values.
func recorded(edition, body string, ttl time.Duration, more ...string) setup {
	return func(t *testing.T, w *world) {
		w.hold(t, record, ttl, append([]string{"edition", edition, "at", "1", "body", body}, more...)...)
	}
}

func under(key string, command ...string) setup {
	return func(t *testing.T, w *world) { w.must(t, append([]string{command[0], key}, command[1:]...)...) }
}

// fields puts n fields under a key.
func fields(key string, n int) setup {
	return func(t *testing.T, w *world) {
		w.must(t, "EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('hset', KEYS[1], 'body' .. i, '1') end", "1", key, strconv.Itoa(n))
	}
}

// wantNow checks an instant of the server's.
func (w *world) wantNow(t *testing.T, got time.Time) {
	t.Helper()
	if now := time.Now(); got.After(now) || got.Before(w.began.Truncate(time.Millisecond)) || !w.real && !got.Equal(now) {
		t.Errorf("the server's time is %v, want %v", got, now)
	}
}

// recordOf shows what a client's record has, without the instant, which must be the server's, or 1.
func (w *world) recordOf(t *testing.T) string {
	t.Helper()
	if kind := w.must(t, "TYPE", record).Str(); kind != "hash" {
		return kind
	}
	if at := w.must(t, "HGET", record, "at").Str(); at != "1" && at != "" {
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Errorf("the record was written at %q", at)
		}
		w.wantNow(t, time.UnixMilli(ms))
	}
	w.must(t, "HDEL", record, "at")
	return strings.TrimPrefix(w.dump(t, record), "hash ")
}

func asks(list []script.ClientRequest) (text []string) {
	for _, a := range list {
		text = append(text, a.Lease+"="+a.Text)
	}
	slices.Sort(text)
	return text
}

// writeRow is a write of a record, what it finds and what it leaves.
type writeRow struct {
	name  string
	setup setup
	write script.ClientWrite
	asked []string
	after string
	ttl   time.Duration
}

func writeRows() []writeRow {
	const first, long = "body=one edition=5", "x"
	older := recorded("4", "old", time.Minute)
	tooLong := strings.Repeat(long, 5000)
	return []writeRow{
		{"first", nothing, write(5, "one"), nil, first, recordTTL},
		{"next", older, write(5, "one"), nil, first, recordTTL},
		{"the same again", recorded("5", "one", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"late", recorded("6", "new", time.Minute, "ask:a:1", "t"), write(5, "one", "a:1", "t"), nil, "ask:a:1=t body=new edition=6", time.Minute},
		{"delete", recorded("4", "old", time.Minute, "ask:a:1", "t"), write(5, ""), nil, "none", absent},
		{"delete nothing", nothing, write(5, ""), nil, "none", absent},
		{"delete late", recorded("6", "new", time.Minute), write(5, ""), nil, "body=new edition=6", time.Minute},
		{"asked", recorded("4", "old", time.Minute, "ask:a:1", "t", "ask:a:2", "u"), write(5, "one"), []string{"a:1=t", "a:2=u"},
			"ask:a:1=t ask:a:2=u " + first, recordTTL},
		{"seen", recorded("4", "old", time.Minute, "ask:a:1", "t", "ask:a:2", "u"), write(5, "one", "a:1", "t", "b", "t"), []string{"a:2=u"}, "ask:a:2=u " + first, recordTTL},
		{"asked anew since", recorded("4", "old", time.Minute, "ask:a:1", "new"), write(5, "one", "a:1", "t"), []string{"a:1=new"}, "ask:a:1=new " + first, recordTTL},
		{"asked what is too long", recorded("4", "old", time.Minute, "ask:"+tooLong, "t", "ask:b", tooLong, "ask:c", "t"), write(5, "one"), []string{"c=t"},
			"ask:c=t " + first, recordTTL},
		{"not a request", recorded("4", "old", time.Minute, "asked", "t"), write(5, "one"), nil, "asked=t " + first, recordTTL},
		{"forged, no TTL", recorded("6", "new", none), write(5, "one"), nil, first, recordTTL},
		{"forged, long TTL", recorded("6", "new", time.Hour), write(5, "one"), nil, first, recordTTL},
		{"forged, edition", recorded("99999999999", "new", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"forged, infinite edition", recorded("inf", "new", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"forged, NaN", recorded("nan", "new", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"forged, no number", recorded("x", "new", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"forged, a long number", recorded(strings.Repeat("9", 300), "new", time.Minute), write(5, "one"), nil, first, recordTTL},
		{"no edition", under(record, "HSET", "a", "b"), write(5, "one"), nil, "a=b " + first, recordTTL},
		{"too many fields", fields(record, 1001), write(5, "one"), nil, first, recordTTL},
		{"too many fields, deleted", fields(record, 1001), write(5, ""), nil, "none", absent},
		{"a string", under(record, "SET", "x"), write(5, "one"), nil, first, recordTTL},
		{"a string, deleted", under(record, "SET", "x"), write(5, ""), nil, "none", absent},
		{"a list", under(record, "RPUSH", "x"), write(5, "one"), nil, first, recordTTL},
		{"a stream", under(record, "XADD", "*", "body", "x"), write(5, "one"), nil, first, recordTTL},
	}
}

func TestWriteClient(t *testing.T) {
	server := single(t)
	for _, r := range writeRows() {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				check := func(asked []string) {
					t.Helper()
					now, list, err := script.WriteClient(t.Context(), w, r.write)
					if err != nil || !slices.Equal(asks(list), asked) {
						t.Errorf("asked %v, %v, want %v", list, err, asked)
					}
					w.wantNow(t, now)
					w.wantTTL(t, record, r.ttl)
					if got := w.recordOf(t); got != r.after {
						t.Errorf("the record is %s, want %s", got, r.after)
					}
				}
				r.setup(t, w)
				check(r.asked)
				check(r.asked)
				w.must(t, "FLUSHALL")
				r.setup(t, w)
				if _, _, err := script.WriteClient(t.Context(), lossy{w}, r.write); driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want class unknown", err)
				}
				check(r.asked)
			})
		})
	}
}

// A late copy of a record that was deleted, or has expired, ends by itself, and the next edition
// replaces it.
func TestLateRecordEndsByItself(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for _, end := range []func(){
			func() { _, _, _ = script.WriteClient(t.Context(), w, write(7, "")) },
			func() { w.lapse(t, record) },
		} {
			must := func(c script.ClientWrite) {
				t.Helper()
				if _, _, err := script.WriteClient(t.Context(), w, c); err != nil {
					t.Fatal(err)
				}
			}
			must(write(6, "one"))
			end()
			w.wantDump(t, record, "nothing")
			must(write(5, "late"))
			w.wantTTL(t, record, recordTTL)
			must(write(8, "two"))
			if got := w.recordOf(t); got != "body=two edition=8" {
				t.Errorf("the record is %s, want the newest one", got)
			}
			must(write(9, "three"))
			w.lapse(t, record)
		}
	})
}

func TestReadClients(t *testing.T) {
	server := single(t)
	whole := script.ClientText{Body: "one", At: time.UnixMilli(1700000000000), Edition: 5}
	of := func(more ...string) setup {
		return func(t *testing.T, w *world) { w.must(t, append([]string{"HSET", record}, more...)...) }
	}
	for name, test := range map[string]struct {
		setup setup
		want  script.ClientText
	}{
		"none": {nothing, script.ClientText{}},
		"whole": {of("body", "one", "at", "1700000000000", "edition", "5", "ask:a", "t", "ask:b", strings.Repeat("x", 5000)), script.ClientText{
			Body: "one", At: whole.At, Edition: 5, Asked: []script.ClientRequest{{Lease: "a", Text: "t"}, {Lease: "b"}},
		}},
		"too long":         {of("body", strings.Repeat("x", longest+1), "at", "1700000000000"), script.ClientText{}},
		"just long enough": {of("body", strings.Repeat("x", longest)), script.ClientText{Body: strings.Repeat("x", longest)}},
		"no body":          {of("at", "1700000000000", "edition", "5"), script.ClientText{}},
		"an empty body":    {of("body", "", "at", "1700000000000"), script.ClientText{}},
		"no instant":       {of("body", "one", "at", "nan", "edition", "-1"), script.ClientText{Body: "one"}},
		"long numbers":     {of("body", "one", "at", strings.Repeat("1", 40), "edition", strings.Repeat("1", 33)), script.ClientText{Body: "one"}},
		"an instant too far": {of("body", "one", "at", "9223372036854775807", "edition", "18446744073709551616"),
			script.ClientText{Body: "one", Edition: 1<<64 - 1}},
		"a string": {under(record, "SET", "x"), script.ClientText{}},
		"a list":   {under(record, "RPUSH", "x"), script.ClientText{}},
		"a zset":   {under(record, "ZADD", "-inf", "body"), script.ClientText{}},
		"many":     {fields(record, 5000).then(of("body", "one", "at", "1700000000000", "edition", "5")), whole},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				before := w.dump(t, record)
				for range 2 {
					list := script.ReadClients(t.Context(), w, longest, record, keyspace.ClientRecord("", bob))
					w.wantNow(t, list[0].Now)
					w.wantNow(t, list[1].Now)
					list[0].Now, list[1].Now = time.Time{}, time.Time{}
					if len(list) != 2 || !reflect.DeepEqual(list[0], test.want) || !reflect.DeepEqual(list[1], script.ClientText{}) {
						t.Errorf("read %+v, want %+v and nothing", list, test.want)
					}
				}
				w.wantDump(t, record, before)
				for _, got := range script.ReadClients(t.Context(), lossy{w}, longest, record) {
					if driver.ClassOf(got.Err) != driver.Unknown || got.Body != "" {
						t.Errorf("with a lost reply: %+v, want class unknown", got)
					}
				}
			})
		})
	}
}

// indexed puts entries of the index there: clients, and in how many ms they are over.
func indexed(pairs ...string) setup {
	return func(t *testing.T, w *world) {
		w.must(t, append([]string{"EVAL", `
			local clock = redis.call('time')
			local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
			for i = 1, #ARGV, 2 do
				local at = tonumber(ARGV[i + 1])
				redis.call('zadd', KEYS[1], at and string.format('%.0f', now + at) or ARGV[i + 1], ARGV[i])
			end`, "1", index}, pairs...)...)
	}
}

// clients are the members of the index, in their order.
func (w *world) clients(t *testing.T) (list []string) {
	t.Helper()
	if kind := w.must(t, "TYPE", index).Str(); kind != "zset" {
		return []string{kind}
	}
	v := w.must(t, "ZRANGE", index, "0", "-1")
	for i := range v.Len() {
		list = append(list, v.At(i).Str())
	}
	return list
}

func TestIndexClient(t *testing.T) {
	server := single(t)
	gone := []string{"none"}
	for name, test := range map[string]struct {
		setup setup
		ttl   time.Duration // 0 to leave the index
		after []string
		left  time.Duration
	}{
		"first":                {nothing, recordTTL, []string{ann}, recordTTL},
		"again":                {indexed(ann, "60000"), recordTTL, []string{ann}, recordTTL},
		"one more":             {indexed(bob, "60000"), recordTTL, []string{bob, ann}, recordTTL},
		"others are over":      {indexed(bob, "-1", eve, "60000", "x", "-inf", "y", "-60000000000000"), recordTTL, []string{eve, ann}, recordTTL},
		"others never end":     {indexed(bob, "700000", "x", "+inf", "y", "60000000000000", eve, "590000"), recordTTL, []string{eve, ann}, recordTTL},
		"leave":                {indexed(ann, "60000", bob, "60000"), 0, []string{bob}, none},
		"leave as the last":    {indexed(ann, "60000"), 0, gone, absent},
		"leave nothing":        {nothing, 0, gone, absent},
		"a hash":               {under(index, "HSET", "a", "b"), recordTTL, []string{ann}, recordTTL},
		"leave a hash":         {under(index, "HSET", "a", "b"), 0, gone, absent},
		"a string":             {under(index, "SET", "a"), recordTTL, []string{ann}, recordTTL},
		"a set":                {under(index, "SADD", ann), recordTTL, []string{ann}, recordTTL},
		"a TTL that is longer": {indexed(bob, "60000").then(under(index, "PEXPIRE", "86400000")), recordTTL, []string{bob, ann}, recordTTL},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				check := func() {
					t.Helper()
					now, err := script.IndexClient(t.Context(), w, index, ann, test.ttl)
					if err != nil {
						t.Error(err)
					}
					w.wantNow(t, now)
					w.wantTTL(t, index, test.left)
					if got := w.clients(t); !slices.Equal(got, test.after) {
						t.Errorf("the index has %v, want %v", got, test.after)
					}
				}
				test.setup(t, w)
				check()
				check()
				w.must(t, "FLUSHALL")
				test.setup(t, w)
				if _, err := script.IndexClient(t.Context(), lossy{w}, index, ann, test.ttl); driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want class unknown", err)
				}
				check()
			})
		})
	}
}

// Entries that nobody removes are removed step by step, however many there are.
func TestIndexIsTidiedStepByStep(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "EVAL", `
			for i = 1, 500 do
				redis.call('zadd', KEYS[1], i, 'over' .. i)
				redis.call('zadd', KEYS[1], '+inf', 'forged' .. i)
			end`, "1", index)
		for left := 1000; left > 0; {
			if _, err := script.IndexClient(t.Context(), w, index, ann, recordTTL); err != nil {
				t.Fatal(err)
			}
			left -= 200
			if got := w.must(t, "ZCARD", index).Int(); got != int64(left)+1 {
				t.Fatalf("the index has %d entries, want %d", got, left+1)
			}
		}
	})
}

func TestListClients(t *testing.T) {
	server := single(t)
	long := strings.Repeat("x", 65)
	for name, test := range map[string]struct {
		setup setup
		want  []string
	}{
		"nothing":              {nothing, nil},
		"the longest silent":   {indexed(bob, "20000", ann, "30000", eve, "10000"), []string{eve, bob}},
		"one is over":          {indexed(bob, "-1", ann, "30000"), []string{ann}},
		"all are over":         {indexed(bob, "-1", ann, "-inf"), nil},
		"forged ones are last": {indexed("x", "+inf", ann, "30000", bob, "40000"), []string{ann, bob}},
		"too long":             {indexed(long, "20000", ann, "30000", eve, "40000"), []string{ann}},
		"a hash":               {under(index, "HSET", ann, "1"), nil},
		"a string":             {under(index, "SET", ann), nil},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				before := w.clients(t)
				for range 2 {
					if list, err := script.ListClients(t.Context(), w, index, 2); err != nil || !slices.Equal(list, test.want) {
						t.Errorf("listed %v, %v, want %v", list, err, test.want)
					}
				}
				if got := w.clients(t); !slices.Equal(got, before) {
					t.Errorf("reading changed the index to %v", got)
				}
				if list, err := script.ListClients(t.Context(), lossy{w}, index, 2); list != nil || driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, %v, want class unknown", list, err)
				}
			})
		})
	}
}

func TestAskClient(t *testing.T) {
	server := single(t)
	for name, test := range map[string]struct {
		setup setup
		want  bool
		after string
	}{
		"asked":           {recorded("5", "one", time.Minute), true, "ask:a:1=please body=one edition=5"},
		"asked once more": {recorded("5", "one", time.Minute, "ask:a:1", "now"), true, "ask:a:1=please body=one edition=5"},
		"no record":       {nothing, false, "none"},
		"no body":         {under(record, "HSET", "edition", "5"), false, "edition=5"},
		"a string":        {under(record, "SET", "x"), false, "string"},
		"a zset":          {under(record, "ZADD", "1", "body"), false, "zset"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, askNews, false)
				var messages []string
				if test.want {
					messages = []string{"ask"}
				}
				ask := func(d driver.Driver) (bool, error) {
					return script.AskClient(t.Context(), d, record, askNews, "a:1", "please", script.Classic)
				}
				test.setup(t, w)
				ttl := w.ttl(t, record)
				for range 2 {
					if ok, err := ask(w); ok != test.want || err != nil {
						t.Errorf("asked %v, %v, want %v", ok, err, test.want)
					}
					sub.want(t, messages...)
				}
				w.wantTTL(t, record, ttl)
				if _, err := ask(lossy{w}); driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want class unknown", err)
				}
				sub.want(t, messages...)
				if got := w.recordOf(t); got != test.after {
					t.Errorf("the record is %s, want %s", got, test.after)
				}
			})
		})
	}
}

// Requests are limited: there are no more than a record may have, and the client is in the end rid of
// those that it does not want.
func TestRequestsAreLimited(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		fields(record, 990).then(recorded("5", "one", time.Minute))(t, w)
		asked := 0
		for i := range 20 {
			ok, err := script.AskClient(t.Context(), w, record, askNews, fmt.Sprint("a:", i), "please", script.Silent)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				asked++
			}
		}
		if n := w.must(t, "HLEN", record).Int(); asked != 7 || n != 1000 {
			t.Errorf("%d requests, %d fields, want 7 and 1000", asked, n)
		}
		_, list, err := script.WriteClient(t.Context(), w, write(6, "two"))
		if len(list) != asked || err != nil {
			t.Errorf("asked %v, %v, want all of them", list, err)
		}
	})
}

// A request outlives neither the record nor its end.
func TestRequestEndsWithTheRecord(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for _, end := range []func(){
			func() { _, _, _ = script.WriteClient(t.Context(), w, write(6, "")) },
			func() { w.lapse(t, record) },
		} {
			recorded("5", "one", recordTTL)(t, w)
			if ok, err := script.AskClient(t.Context(), w, record, askNews, "a:1", "please", script.Classic); !ok || err != nil {
				t.Fatalf("asked %v, %v", ok, err)
			}
			end()
			if ok, err := script.AskClient(t.Context(), w, record, askNews, "a:1", "please", script.Classic); ok || err != nil {
				t.Errorf("asked %v, %v, want that there is no record", ok, err)
			}
			if _, list, err := script.WriteClient(t.Context(), w, write(7, "one")); list != nil || err != nil {
				t.Errorf("the client is asked %v, %v, want nothing", list, err)
			}
			w.must(t, "FLUSHALL")
		}
	})
}

func init() {
	everyCall["WriteClient"] = func(ctx context.Context, d driver.Driver) error {
		now, asked, err := script.WriteClient(ctx, d, write(5, "one", "a:1", "t"))
		return unless(!now.IsZero() || asked != nil, err)
	}
	everyCall["WriteClientNot"] = func(ctx context.Context, d driver.Driver) error {
		now, asked, err := script.WriteClient(ctx, d, write(6, ""))
		return unless(!now.IsZero() || asked != nil, err)
	}
	everyCall["ReadClients"] = func(ctx context.Context, d driver.Driver) error {
		r := script.ReadClients(ctx, d, longest, record)[0]
		err := r.Err
		r.Err = nil
		return unless(!reflect.DeepEqual(r, script.ClientText{}), err)
	}
	everyCall["IndexClient"] = func(ctx context.Context, d driver.Driver) error {
		now, err := script.IndexClient(ctx, d, index, ann, recordTTL)
		return unless(!now.IsZero(), err)
	}
	everyCall["ListClients"] = func(ctx context.Context, d driver.Driver) error {
		list, err := script.ListClients(ctx, d, index, 10)
		return unless(list != nil, err)
	}
	everyCall["AskClient"] = func(ctx context.Context, d driver.Driver) error {
		ok, err := script.AskClient(ctx, d, record, askNews, "a:1", "please", script.Classic)
		return unless(ok, err)
	}
	everyCall["HistoryAdd"] = func(ctx context.Context, d driver.Driver) error {
		return script.HistoryAdd(ctx, d, []script.HistoryBatch{{Name: job, Entries: []string{"a", "b"}, Most: 3}})
	}
	everyCall["HistoryRead"] = func(ctx context.Context, d driver.Driver) error {
		list, err := script.HistoryRead(ctx, d, job, 10)
		return unless(list != nil, err)
	}
	everyCall["ReadTurns"] = func(ctx context.Context, d driver.Driver) error {
		turns, err := conn(d, false, script.Classic).ReadTurns(ctx, job)
		return unless(turns.Clients != nil || turns.Listeners != 0, err)
	}
}

// conn is a connection that knows how to publish.
func conn(d driver.Driver, cluster bool, p script.Publish) *script.Conn {
	c := script.NewConn(d)
	c.Learn(cluster, p)
	return c
}
