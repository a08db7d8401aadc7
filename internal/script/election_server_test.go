//go:build server

package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

func TestElectionWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	mine := leads(time.Minute, me, "here", "7", "1")
	for name, test := range electionCalls(mine) {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				sub := w.listen(t, election, false)
				test.setup(t, w)
				ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if ok || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, %v, want an error of class denied", ok, err)
				}
				w.wantDump(t, job, test.after)
				if ttl := w.ttl(t, job); ttl == none {
					t.Error("the key has no TTL")
				}
				sub.want(t)
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			test.setup(t, w)
			rules := []string{"~" + job, "~" + terms, "&" + election, "&" + vacancy, "+eval", "+evalsha", "+publish", "+spublish"}
			for _, right := range test.rights {
				rules = append(rules, "+"+right)
			}
			if ok, err := test.call(t.Context(), w.login(t, rules...)); !ok || err != nil {
				t.Errorf("with the rights %v: %v, %v, want true", rules, ok, err)
			}
		})
	}
	for name, test := range map[string]struct {
		setup setup
		call  func(ctx context.Context, d driver.Driver) (bool, error)
		tells bool // that the message was not published
	}{
		"campaign": {nothing, campaigns, false}, // observers look for themselves
		"resign":   {mine, resigns, true},
	} {
		t.Run(name+"/channel", func(t *testing.T) {
			w := realWorld(t, server)
			test.setup(t, w)
			ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "resetchannels"))
			if !ok || (err != nil) != test.tells || (err != nil && driver.ClassOf(err) != driver.Denied) {
				t.Errorf("got %v, %v; want it done, and said that nobody was told: %v", ok, err, test.tells)
			}
		})
	}
}

// electionCall is an operation and the commands that it needs.
type electionCall struct {
	rights []string
	setup  setup
	after  string
	call   func(ctx context.Context, d driver.Driver) (bool, error)
}

// electionCalls are the operations on an election. Mine has me lead it.
func electionCalls(mine setup) map[string]electionCall {
	stays := leading(me, "here", "7", "1")
	return map[string]electionCall{
		"campaign":       {[]string{"hget", "exists", "incr", "persist", "hset", "pexpire"}, nothing, "nothing", campaigns},
		"campaign again": {[]string{"hget", "hlen", "pttl", "hkeys", "pexpire"}, mine, stays, campaigns},
		"resign":         {[]string{"hexists", "del"}, mine, stays, resigns},
		"proclaim": {[]string{"hexists", "hget", "hset"}, mine, stays, func(ctx context.Context, d driver.Driver) (bool, error) {
			return script.ElectionProclaim(ctx, d, job, me, "there", 2, script.Both)
		}},
		"read": {[]string{"hget", "hlen", "hkeys", "hmget", "pttl"}, mine, stays, func(ctx context.Context, d driver.Driver) (bool, error) {
			_, ok, err := script.ElectionRead(ctx, d, job)
			return ok, err
		}},
	}
}

func campaigns(ctx context.Context, d driver.Driver) (bool, error) {
	term, _, err := script.ElectionCampaign(ctx, d, job, me, "here", lease, script.Both)
	return term > 0, err
}

func resigns(ctx context.Context, d driver.Driver) (bool, error) {
	return script.ElectionResign(ctx, d, job, me, script.Both)
}
