package doctor

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

// questions are commands of which the server says whether the user may run them.
type questions struct {
	args  []string
	count int
}

// ask adds a command, and returns its place.
func (q *questions) ask(words ...string) int {
	q.args = append(append(q.args, strconv.Itoa(len(words))), words...)
	q.count++
	return q.count - 1
}

// answered returns which commands the user may run. The right to one that the server does not know is not
// missed: its line of versions does not have it.
func (q *questions) answered(r driver.Result) (may []bool, err error) {
	if r.Err != nil {
		return nil, r.Err
	}
	if r.Value.Len() != q.count {
		return nil, text("the server does not tell what a user may do; Redis 7.0 and Valkey do")
	}
	for i := range q.count {
		may = append(may, r.Value.At(i).Int() != 0)
	}
	return may, nil
}

// pattern is a pattern of a rule, and a key or channel that it matches.
type pattern struct{ rule, real string }

// realized returns the patterns of a rule, each with something that only it matches.
func realized(p, prefix, name string) []pattern {
	rules := both(p, prefix)
	wrapped, open := "{"+name+"}", name+":{x}"
	if p == latch { // its names are in braces in any case
		return []pattern{{rules[0], p[1:] + name + "}"}, {rules[1], p[1:] + "{" + name + "}x}"}}
	}
	return []pattern{{rules[0], p[1:] + wrapped}, {rules[1], p[1:] + open}}
}

// inquiry is what is asked about a row, or a part of it: whether each of some commands may be run on each
// of some places. The server does not say which word of a rule it is that forbids a command. So a command
// counts as missing if it may be run nowhere, and a place if none of the commands that may be run elsewhere may
// be run there.
type inquiry struct {
	commands []string
	places   []pattern
	at       [][]int // the questions, by place and command; those about other places follow
}

// inquire asks about places, and about others where the commands may be run, too.
func (q *questions) inquire(commands []string, places, others []pattern) *inquiry {
	i := &inquiry{commands: commands, places: places}
	for _, p := range slices.Concat(places, others) {
		var row []int
		for _, c := range commands {
			row = append(row, q.ask(sample(c, p.real)...))
		}
		i.at = append(i.at, row)
	}
	return i
}

// missing returns the words of a rule for what the user lacks; none if it lacks nothing.
func (i *inquiry) missing(may []bool) (words []string) {
	var able []int // commands that may be run somewhere, and depend on the place
	for j, c := range i.commands {
		somewhere := slices.ContainsFunc(i.at, func(row []int) bool { return may[row[j]] })
		switch {
		case !somewhere:
			words = append(words, "+"+c)
		case !anywhere[c]:
			able = append(able, j)
		}
	}
	if onlyAnywhere(i.commands) {
		return words
	}
	for n, p := range i.places {
		if !slices.ContainsFunc(able, func(j int) bool { return may[i.at[n][j]] }) {
			words = append(words, p.rule)
		}
	}
	return words
}

// inquiries asks about a row: its keys, and its channels.
func (q *questions) inquiries(r *row, prefix string) []*inquiry {
	name, literally := prefix+probe, literal.Replace(prefix)
	keys := []pattern{{"~" + literally + "*", name}}
	if prefix != "" {
		keys = append(keys, pattern{"~{" + literally + "*", "{" + name + "}"})
	}
	var channels []pattern
	for _, p := range r.patterns {
		switch {
		case p[0] == '&':
			channels = append(channels, realized(p, literally, name)...)
		case prefix != "":
			keys = append(keys, realized(p, literally, name)...)
		}
	}
	ofKeys := slices.DeleteFunc(strings.Fields(r.commands), func(c string) bool { return c == "publish" || c == "spublish" }) // see below
	list := []*inquiry{q.inquire(ofKeys, keys, nil)}
	if len(channels) > 0 {
		list = append(list, q.inquire(strings.Fields(strings.ReplaceAll(messaging, "+", "")), channels, otherChannels(r, literally, name)))
	}
	return list
}

// otherChannels returns a channel of each kind but that of r.
func otherChannels(r *row, prefix, name string) (others []pattern) {
	for _, other := range rows {
		i := slices.IndexFunc(other.patterns, func(p string) bool { return p[0] == '&' })
		if other.kind != r.kind && i >= 0 {
			others = append(others, realized(other.patterns[i], prefix, name)...)
		}
	}
	return others
}

// missingOfAll returns what the user lacks of each kind. It asks with one script for each, in one go.
//
// Who looks needs the rows of two other kinds as well.
func (e *exam) missingOfAll(ctx context.Context) (map[Kind][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	kinds := Kinds()
	asked, about := make([]questions, len(kinds)), make([][]*inquiry, len(kinds))
	var calls []driver.Call
	for i, kind := range kinds {
		about[i] = asked[i].inquiries(kind.row(), e.o.Prefix)
		call := driver.Call{Script: askRights, Args: asked[i].args}
		if key := cmp.Or(e.answering, e.keys()[0]); key != "" {
			call.Keys = []string{key}
		}
		calls = append(calls, call)
	}
	missing := make(map[Kind][]string)
	for i, r := range e.d.Batch(ctx, calls) {
		may, err := asked[i].answered(r)
		if err != nil {
			return nil, err
		}
		for _, one := range about[i] {
			if words := one.missing(may); words != nil {
				missing[kinds[i]] = unique(append(missing[kinds[i]], words...))
			}
		}
	}
	if words := slices.Concat(missing[KindLook], missing[KindInspect], missing[KindList]); words != nil {
		missing[KindLook] = unique(words)
	}
	return missing, nil
}

// anywhere are the commands without keys and channels.
var anywhere = map[string]bool{
	"time": true, "pubsub|numsub": true, "scan": true, "unsubscribe": true, "sunsubscribe": true,
	"acl|whoami": true, "client|list": true, "cluster|info": true, "config|get": true, "dbsize": true, "info": true,
}

func onlyAnywhere(commands []string) bool {
	return !slices.ContainsFunc(commands, func(c string) bool { return !anywhere[c] })
}

// after are the words of commands that follow a key; there are none for most of those that read.
var after = map[string]string{
	"decrby": "1", "getrange": "0 1", "hdel": "f", "hexists": "f", "hget": "f", "hmget": "f", "hscan": "0", "hset": "f v",
	"hsetnx": "f v", "hstrlen": "f", "incrby": "1", "lindex": "0", "lpush": "v", "lrange": "0 1", "lrem": "1 v", "pexpire": "1",
	"rpush": "v", "set": "v", "xadd": "* f v", "xrevrange": "+ -", "zadd": "1 v", "zcount": "0 1", "zincrby": "1 v",
	"zrange": "0 1", "zrangebyscore": "0 1", "zrank": "v", "zrem": "v", "zscore": "v", "publish": "v", "spublish": "v",
}

// sample returns a command that is valid, and would do something to a key or channel.
func sample(command, place string) []string {
	switch command {
	case "time", "dbsize", "info", "acl|whoami", "client|list", "cluster|info":
		return strings.Split(command, "|")
	case "config|get":
		return []string{"config", "get", "save"}
	case "scan":
		return []string{command, "0"}
	case "pubsub|numsub":
		return []string{"pubsub", "numsub", place}
	case "object|idletime":
		return []string{"object", "idletime", place}
	}
	return append([]string{command, place}, strings.Fields(after[command])...)
}
