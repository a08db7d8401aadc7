//go:build server

package script_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

func TestBarriersWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	type run = func(ctx context.Context, d driver.Driver) string
	two, inside := barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""})
	others := barrierOf(ten, double(), seat{you, ten, ""}, seat{they, ten, ""})
	var unchanged, lost = true, false // parties are lost: they get an error, and no party passes
	for name, test := range map[string]struct {
		setup  setup
		call   run
		rights map[string]bool
	}{
		"await": {nothing, await(false), map[string]bool{"time": unchanged, "getrange": unchanged, "hget": unchanged, "exists": unchanged, "hgetall": unchanged,
			"hset": unchanged, "pexpire": unchanged}},
		"await, the last": {two, await(false), map[string]bool{"hgetall": unchanged, "del": unchanged, "set": lost}},
		"leave": {barrierOf(ten, cyclic(), seat{me, ten, " 0"}, seat{they, ten, " 1"}), func(ctx context.Context, d driver.Driver) string {
			return saidDone(script.BarrierLeave(ctx, d, ours, me))
		}, map[string]bool{"exists": unchanged, "hget": unchanged, "hexists": unchanged, "hgetall": unchanged, "del": unchanged, "set": lost}},
		"reset": {two, func(ctx context.Context, d driver.Driver) string {
			return saidDone(script.BarrierReset(ctx, d, ours, me))
		}, map[string]bool{"getrange": unchanged, "hget": unchanged, "hlen": unchanged, "hgetall": unchanged, "del": unchanged, "set": lost}},
		"enter":           {nothing, enter(false), map[string]bool{"time": unchanged, "getrange": unchanged, "exists": unchanged, "hget": unchanged, "hset": unchanged, "pexpire": unchanged}},
		"enter, the last": {others, enter(false), map[string]bool{"hgetall": lost, "set": lost}}, // it is inside, and nobody is let in
		"double": {inside, func(ctx context.Context, d driver.Driver) string {
			return saidFate(script.DoubleLeave(ctx, d, ours, me))
		},
			map[string]bool{"getrange": unchanged, "hget": unchanged, "hset": unchanged}},
		"quit": {inside, func(ctx context.Context, d driver.Driver) string {
			_, err := script.DoubleQuit(ctx, d, ours, me)
			return saidDone(err)
		}, map[string]bool{"getrange": unchanged, "hget": unchanged, "set": unchanged}},
	} {
		for right, same := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.setup(t, w)
				before := w.layout(t)
				got := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if got != "denied" {
					t.Errorf("got %q, want denied", got)
				}
				after := w.layout(t)
				if same && after != before {
					t.Errorf("in Redis lies\n%s, and before\n%s", after, before)
				}
				if strings.Contains(after, "passed") || name == "enter, the last" && strings.Contains(after, "open") {
					t.Errorf("somebody passes: %s", after)
				}
				if w.ttl(t, job) == none {
					t.Error("the barrier has no TTL")
				}
			})
		}
	}
	t.Run("channel", func(t *testing.T) { passesWithoutItsChannel(t, realWorld(t, server), two) })
	t.Run("all", func(t *testing.T) { passesWithItsRights(t, realWorld(t, server), two) })
}

func passesWithoutItsChannel(t *testing.T, w *world, two setup) {
	two(t, w)
	if got := await(false)(t.Context(), w.login(t, "+@all", "~*", "resetchannels")); got != "over 2" {
		t.Errorf("got %q, want to pass even if nobody can be told", got)
	}
}

func passesWithItsRights(t *testing.T, w *world, two setup) {
	two(t, w)
	rules := []string{"~" + job, "~" + keyspace.BarrierOutcomes(job) + ":*", "&" + barrierChannel, "+eval", "+evalsha", "+publish",
		"+time", "+getrange", "+set", "+hget", "+hset", "+hsetnx", "+hdel", "+hexists", "+hgetall", "+hlen", "+exists", "+pttl", "+pexpire", "+del"}
	if got := await(false)(t.Context(), w.login(t, rules...)); got != "over 2" {
		t.Errorf("with the rights %v: %q, want %q", rules, got, "over 2")
	}
}

func TestBarriersPublishAsTold(t *testing.T) {
	server := redistest.Single(t)
	w := realWorld(t, server)
	classic, sharded := w.listen(t, barrierChannel, false), w.listen(t, barrierChannel, true)
	for p, want := range map[script.Publish][2]int{script.Classic: {1, 0}, script.Sharded: {0, 1}, script.Both: {1, 1}} {
		b := ours
		b.Publish, b.Parties = p, 1
		w.must(t, "FLUSHALL")
		if got := saidFate(script.BarrierAwait(t.Context(), w, b, me, false)); got != "over 0" {
			t.Errorf("%v: %s, want %q", p, got, "over 0")
		}
		if got := [2]int{len(classic.received(t)), len(sharded.received(t))}; got != want {
			t.Errorf("%v: %v messages, want %v", p, got, want)
		}
	}
}
