//go:build server

package script_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// telling are the calls that tell of locks, with the key that each uses, and the commands that it runs
// for what is ours and, with more rights, for what is not.
var telling = map[string]struct {
	key     string
	rights  []string
	more    []string
	channel string
	ours    setup
}{
	"WriteClient": {record, []string{"time", "type", "pttl", "hlen", "hstrlen", "hget", "hdel", "hkeys", "hset", "pexpire"}, []string{"unlink", "del"}, "",
		recorded("4", "old", time.Minute, "ask:a:1", "t", "ask:b:2", "t")},
	"WriteClientNot": {record, []string{"time", "type", "pttl", "hlen", "hstrlen", "hget", "del"}, []string{"unlink"}, "", recorded("4", "old", time.Minute)},
	"ReadClients":    {record, []string{"time", "type", "hstrlen", "hget"}, []string{"hlen", "hkeys"}, "", recorded("4", "old", time.Minute, "ask:b:2", "t")},
	"IndexClient":    {index, []string{"time", "type", "zrangebyscore", "zrem", "zadd", "pexpire"}, []string{"unlink"}, "", indexed(bob, "-1", ann, "60000")},
	"ListClients":    {index, []string{"time", "type", "zrangebyscore"}, nil, "", indexed(bob, "60000", ann, "60000")},
	"AskClient":      {record, []string{"type", "hexists", "hlen", "hset"}, []string{"publish"}, askNews, recorded("4", "old", time.Minute)},
	"HistoryAdd":     {past, []string{"time", "type", "exists", "xlen", "xrevrange", "xadd", "pexpire"}, []string{"unlink", "del"}, "", added("a")},
	"HistoryRead":    {past, []string{"type", "xrevrange"}, nil, "", added("a")},
	"ReadTurns":      {keyspace.Turns(job), []string{"type", "zrange"}, []string{"pubsub|numsub"}, channel, under(keyspace.Turns(job), "ZADD", "1", anns)},
}

// A script that lacks a right says so, and leaves no key without TTL; with those that it needs, and no
// others, it is not refused.
func TestTellingWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range telling {
		call := everyCall[name]
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.ours(t, w)
				if right == "pexpire" { // a key without TTL would stay
					w.must(t, "DEL", test.key)
				}
				if err := call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right)); driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, want class denied", err)
				}
				if kept := test.ours; right == "pexpire" && kept != nil {
					w.wantTTL(t, test.key, absent)
				}
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			w.must(t, "ACL", "LOG", "RESET")
			rules := []string{"~" + test.key, "resetchannels", "+eval", "+evalsha"}
			if test.channel != "" {
				rules = append(rules, "&"+test.channel)
			}
			for _, right := range slices.Concat(test.rights, test.more) {
				rules = append(rules, "+"+right)
			}
			d := w.login(t, rules...)
			for _, s := range []setup{nothing, test.ours, under(test.key, "SET", "x"), under(test.key, "HSET", "a", "b"), under(test.key, "XADD", "*", "f", "x")} {
				w.must(t, "DEL", test.key)
				s(t, w)
				if err := call(t.Context(), d); err != nil {
					t.Errorf("with the rights %v: %v", rules, err)
				}
			}
			if log := w.must(t, "ACL", "LOG"); log.Len() > 0 {
				t.Errorf("refused with the rights %v: %v", rules, log)
			}
		})
	}
}

// Without the right to publish, or to count listeners, the rest is done.
func TestTellingWithoutChannels(t *testing.T) {
	w := realWorld(t, redistest.Single(t))
	d := w.login(t, "+@all", "~*", "resetchannels", "-publish", "-pubsub")
	recorded("5", "one", time.Minute)(t, w)
	if ok, err := script.AskClient(t.Context(), d, record, askNews, "a:1", "please", script.Classic); !ok || err != nil {
		t.Errorf("asked %v, %v, want that the client is asked", ok, err)
	}
	if got := w.recordOf(t); !strings.HasPrefix(got, "ask:a:1=please") {
		t.Errorf("the record is %s, want the request in it", got)
	}
	under(keyspace.Turns(job), "ZADD", "1", anns)(t, w)
	if turns, err := conn(d, false, script.Classic).ReadTurns(t.Context(), job); err != nil || turns.Listeners != -1 || len(turns.Clients) != 1 {
		t.Errorf("read %+v, %v, want one client, and that listeners are unknown", turns, err)
	}
}

// The ways to publish a request, and to count those that listen.
func TestTellingOnChannels(t *testing.T) {
	if !redistest.Sharded(t) {
		return // it has the other tests
	}
	w := realWorld(t, redistest.Single(t))
	for how, want := range map[script.Publish][2][]string{
		script.Classic: {{"ask"}, {}}, script.Sharded: {{}, {"ask"}}, script.Both: {{"ask"}, {"ask"}},
	} {
		recorded("5", "one", time.Minute)(t, w)
		classic, sharded := w.listen(t, askNews, false), w.listen(t, askNews, true)
		if ok, err := script.AskClient(t.Context(), w, record, askNews, "a:1", "please", how); !ok || err != nil {
			t.Errorf("asked %v, %v", ok, err)
		}
		classic.want(t, want[0]...)
		sharded.want(t, want[1]...)
	}
	w.listenAsRedisson(t, channel, true)
	w.listenAsRedisson(t, channel, true)
	w.listen(t, channel, true)
	if turns, err := conn(w, true, script.Sharded).ReadTurns(t.Context(), job); err != nil || turns.Listeners != 2 {
		t.Errorf("read %+v, %v, want two listeners", turns, err)
	}
}

// A reader that sees no channels still reads.
func TestReadTurnsWhereListenersCannotBeCounted(t *testing.T) {
	server := redistest.Single(t, without(t, "PUBSUB")...)
	w := realWorld(t, server)
	if turns, err := conn(w, false, script.Classic).ReadTurns(t.Context(), job); err != nil || turns.Listeners != -1 {
		t.Errorf("read %+v, %v, want that listeners are unknown", turns, err)
	}
}

// A server that is out of memory has no index and no history, and no key without TTL; a record can be deleted.
func TestTellingWithoutMemory(t *testing.T) {
	w := realWorld(t, redistest.Single(t))
	recorded("4", "old", time.Minute)(t, w)
	w.must(t, "CONFIG", "SET", "maxmemory", "1")
	for _, name := range []string{"IndexClient", "HistoryAdd"} {
		if err := everyCall[name](t.Context(), w); err == nil {
			t.Errorf("%s: no error, want that there is no memory", name)
		}
	}
	if err := everyCall["WriteClientNot"](t.Context(), w); err != nil {
		t.Errorf("a record is not deleted: %v", err)
	}
	for _, key := range []string{record, index, past} {
		w.wantTTL(t, key, absent)
	}
}
