package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var past = keyspace.History(job)

func added(entries ...string) setup {
	return func(t *testing.T, w *world) {
		for _, e := range entries {
			w.must(t, "XADD", past, "*", "e", e)
		}
	}
}

// entries are the texts of a history, the newest first.
func (w *world) entries(t *testing.T, most int) (list []string) {
	t.Helper()
	all, err := script.HistoryRead(t.Context(), w, job, most)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		w.wantNow(t, e.At)
		list = append(list, e.Text)
	}
	return list
}

func TestHistoryAdd(t *testing.T) {
	server := single(t)
	once := []string{"two", "one"}
	for name, test := range map[string]struct {
		setup       setup
		after       []string
		afterRepeat []string // at most four are kept
	}{
		"first":             {nothing, once, []string{"two", "one", "two", "one"}},
		"more":              {added("a"), append(once, "a"), []string{"two", "one", "two", "one"}},
		"too many":          {added("a", "b", "c", "d", "e"), append(once, "e", "d"), []string{"two", "one", "two", "one"}},
		"a list":            {under(past, "RPUSH", "x"), once, []string{"two", "one", "two", "one"}},
		"a hash":            {under(past, "HSET", "e", "x"), once, []string{"two", "one", "two", "one"}},
		"a string":          {under(past, "SET", "x"), once, []string{"two", "one", "two", "one"}},
		"an empty stream":   {added("a").then(under(past, "XTRIM", "MAXLEN", "0")), once, []string{"two", "one", "two", "one"}},
		"ends in future":    {under(past, "XADD", "99999999999999-1", "e", "x"), once, []string{"two", "one", "two", "one"}},
		"ends in eternity":  {under(past, "XADD", "18446744073709551615-18446744073709551615", "e", "x"), once, []string{"two", "one", "two", "one"}},
		"has foreign ones":  {under(past, "XADD", "*", "f", "x", "e", "y"), once, []string{"two", "one", "two", "one"}},
		"has no TTL":        {added("a").then(under(past, "PERSIST")), append(once, "a"), []string{"two", "one", "two", "one"}},
		"has a shorter TTL": {added("a").then(under(past, "PEXPIRE", "60000")), append(once, "a"), []string{"two", "one", "two", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				add := func(d driver.Driver) error {
					return script.HistoryAdd(t.Context(), d, []script.HistoryBatch{{Name: job, Entries: []string{"one", "two"}, Most: 4}})
				}
				want := func(want []string) {
					t.Helper()
					if got := w.entries(t, 10); !slices.Equal(got, want) {
						t.Errorf("the history is %q, want %q", got, want)
					}
					w.wantTTL(t, past, script.HistoryTTL)
				}
				test.setup(t, w)
				if err := add(w); err != nil {
					t.Fatal(err)
				}
				want(test.after)
				if err := add(lossy{w}); driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, want class unknown", err)
				}
				want(test.afterRepeat)
				w.lapse(t, past)
				if err := add(w); err != nil {
					t.Fatal(err)
				}
				want(once)
			})
		})
	}
}

// What is wrong with the history of one lock is told, and does not keep others from theirs.
func TestHistoriesOfSeveralLocks(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		under(keyspace.History("a"), "XADD", "*", "f", "x")(t, w)
		batches := []script.HistoryBatch{{Name: "a", Entries: []string{"one"}, Most: 1 << 62}, {Name: job, Entries: []string{"two"}, Most: 3}}
		if err := script.HistoryAdd(t.Context(), failing{w}, batches); driver.ClassOf(err) != driver.Denied {
			t.Errorf("got %v, want class denied", err)
		}
		if got := w.entries(t, 10); !slices.Equal(got, []string{"two"}) {
			t.Errorf("the history is %q, want the entry", got)
		}
	})
}

// failing is a driver that may not do the first call of a batch.
type failing struct{ *world }

func (d failing) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	denied := driver.Result{Err: &driver.Error{Class: driver.Denied, Err: errLost}}
	return append([]driver.Result{denied}, d.world.Batch(ctx, calls[1:])...)
}

func TestHistoryRead(t *testing.T) {
	server := single(t)
	long := strings.Repeat("x", 4096)
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprint("e", i))
	}
	newest := slices.Clone(many)
	slices.Reverse(newest)
	for name, test := range map[string]struct {
		setup setup
		most  int
		want  []string
	}{
		"nothing":       {nothing, 5, nil},
		"some":          {added("a", "b"), 5, []string{"b", "a"}},
		"the newest":    {added("a", "b"), 1, []string{"b"}},
		"none wanted":   {added("a", "b"), -1, []string{"b"}},
		"all of many":   {added(many...), 1000, newest},
		"some of many":  {added(many...), 41, newest[:41]},
		"more wanted":   {added(many...), 1 << 40, newest},
		"foreign ones":  {added("a").then(under(past, "XADD", "*", "f", "x")).then(added("b")).then(under(past, "XADD", "*", "x", "e", "e", "y")), 5, []string{"b", "a"}},
		"long ones":     {added("a", long, long+"x", "b"), 5, []string{"b", long, "a"}},
		"a list":        {under(past, "RPUSH", "e"), 5, nil},
		"a hash":        {under(past, "HSET", "e", "x"), 5, nil},
		"a string":      {under(past, "SET", "e"), 5, nil},
		"emptied again": {added("a").then(under(past, "XTRIM", "MAXLEN", "0")), 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				for range 2 {
					if got := w.entries(t, test.most); !slices.Equal(got, test.want) {
						t.Errorf("read %.200q, want %.200q", got, test.want)
					}
				}
				if list, err := script.HistoryRead(t.Context(), lossy{w}, job, 3); list != nil || driver.ClassOf(err) != driver.Unknown {
					t.Errorf("with a lost reply: %v, %v, want class unknown", list, err)
				}
			})
		})
	}
}

// Instants that no clock shows are no instants, and what is huge is not read to its end.
func TestHistoryReadOfForgedEntries(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		added("old")(t, w)
		for range 5 {
			w.must(t, "EVAL", "redis.call('xadd', KEYS[1], '*', 'e', string.rep('x', 1000000))", "1", past)
		}
		for range 15 {
			w.must(t, "XADD", past, "*", "f", "x")
		}
		w.must(t, "XADD", past, "18446744073709551615-1", "e", "never")
		list, err := script.HistoryRead(t.Context(), w, job, 1000)
		if err != nil || len(list) != 1 || list[0] != (script.HistoryEntry{At: time.Time{}, Text: "never"}) {
			t.Errorf("read %+v, %v, want the one before those that are huge", list, err)
		}
	})
}

func TestReadTurns(t *testing.T) {
	server := single(t)
	turns := keyspace.Turns(job)
	for name, test := range map[string]struct {
		setup     setup
		ours      bool // one of ours listens
		redissons int  // that listen, as Redisson does
		writers   int  // that listen for a read/write lock
		want      []string
	}{
		"nothing":           {setup: nothing},
		"in their order":    {setup: under(turns, "ZADD", "2", anns, "3", eves, "1", "?"+bobs), want: []string{bob, ann, eve}},
		"forged scores":     {setup: under(turns, "ZADD", "inf", anns, "-inf", eves, "-1", bobs), want: []string{eve, bob, ann}},
		"foreign entries":   {setup: under(turns, "ZADD", "1", "", "2", "?", "3", strings.Repeat("x", 300)), want: []string{"", "", strings.Repeat("x", 200)}},
		"ours listens":      {setup: nothing, ours: true},
		"Redisson listens":  {setup: nothing, redissons: 1},
		"several listen":    {setup: under(turns, "ZADD", "2", anns), redissons: 3, ours: true, want: []string{ann}},
		"writers listen":    {setup: nothing, redissons: 1, writers: 2, ours: true},
		"a list":            {setup: under(turns, "RPUSH", anns), redissons: 1},
		"a string":          {setup: under(turns, "SET", anns)},
		"a hash":            {setup: under(turns, "HSET", anns, "1")},
		"those of our lock": {setup: under(keyspace.Turns("other"), "ZADD", "1", anns)},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				if test.ours {
					w.listen(t, channel, false)
					w.listen(t, keyspace.RWChannel(job), false)
				}
				for range test.writers {
					w.listenAsRedisson(t, keyspace.RWChannel(job), false)
				}
				for range test.redissons {
					w.listenAsRedisson(t, channel, false)
				}
				c := conn(w, false, script.Classic)
				for range 2 {
					got, err := c.ReadTurns(t.Context(), job)
					if err != nil || got.Listeners != test.redissons+test.writers || !slices.Equal(got.Clients, test.want) {
						t.Errorf("read %+v, %v, want %d listeners and %v", got, err, test.redissons+test.writers, test.want)
					}
				}
				if got, err := conn(w, true, script.Classic).ReadTurns(t.Context(), job); err != nil || got.Listeners != -1 {
					t.Errorf("on a cluster with classic messages: %+v, %v, want that listeners are unknown", got, err)
				}
				if got, err := conn(lossy{w}, false, script.Classic).ReadTurns(t.Context(), job); driver.ClassOf(err) != driver.Unknown || got.Clients != nil {
					t.Errorf("with a lost reply: %+v, %v, want class unknown", got, err)
				}
			})
		})
	}
}

// A crowd of entries is read in part.
func TestReadManyTurns(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "EVAL", "for i = 1, 3000 do redis.call('zadd', KEYS[1], i, 'a' .. i .. ':1') end", "1", keyspace.Turns(job))
		got, err := conn(w, false, script.Classic).ReadTurns(t.Context(), job)
		if err != nil || len(got.Clients) != 1000 || got.Clients[999] != "a1000" {
			t.Errorf("read %d clients, %v, want the first thousand", len(got.Clients), err)
		}
	})
}
