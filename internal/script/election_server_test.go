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
	stays := leading(me, "here", "7", "1")
	resign := func(ctx context.Context, d driver.Driver) (bool, error) {
		return script.ElectionResign(ctx, d, job, me, script.Both)
	}
	run := func(ctx context.Context, d driver.Driver) (bool, error) {
		term, _, err := script.ElectionCampaign(ctx, d, job, me, "here", lease, script.Both)
		return term > 0, err
	}
	for name, test := range map[string]struct {
		rights []string
		given  given
		after  string
		call   func(ctx context.Context, d driver.Driver) (bool, error)
	}{
		"campaign":       {[]string{"hget", "exists", "incr", "hset", "pexpire"}, nothing, "nothing", run},
		"campaign again": {[]string{"hget", "hlen", "pttl", "hkeys", "pexpire"}, mine, stays, run},
		"resign":         {[]string{"hexists", "del"}, mine, stays, resign},
		"proclaim": {[]string{"hexists", "hget", "hset"}, mine, stays, func(ctx context.Context, d driver.Driver) (bool, error) {
			return script.ElectionProclaim(ctx, d, job, me, "there", 2, script.Both)
		}},
		"read": {[]string{"hget", "hlen", "hkeys", "hmget", "pttl"}, mine, stays, func(ctx context.Context, d driver.Driver) (bool, error) {
			_, ok, err := script.ElectionRead(ctx, d, job)
			return ok, err
		}},
	} {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				ear := w.listen(t, election, false)
				test.given(t, w)
				ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if ok || driver.ClassOf(err) != driver.Denied {
					t.Errorf("%v, %v, want an error of class denied", ok, err)
				}
				w.wantDump(t, job, test.after)
				if ttl := w.ttl(t, job); ttl == none {
					t.Error("the key has no TTL")
				}
				ear.want(t)
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			test.given(t, w)
			rules := []string{"~" + job, "~" + terms, "&" + election, "&" + vacancy, "+eval", "+evalsha", "+publish", "+spublish"}
			for _, right := range test.rights {
				rules = append(rules, "+"+right)
			}
			if ok, err := test.call(t.Context(), w.login(t, rules...)); !ok || err != nil {
				t.Errorf("with the rights %v: %v, %v", rules, ok, err)
			}
		})
	}
	for name, test := range map[string]struct {
		given given
		call  func(ctx context.Context, d driver.Driver) (bool, error)
		tells bool // that the message was not published
	}{
		"campaign": {nothing, run, false}, // observers look for themselves
		"resign":   {mine, resign, true},
	} {
		t.Run(name+"/channel", func(t *testing.T) {
			w := realWorld(t, server)
			test.given(t, w)
			ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "resetchannels"))
			if !ok || (err != nil) != test.tells || (err != nil && driver.ClassOf(err) != driver.Denied) {
				t.Errorf("%v, %v; want it done, and said that nobody was told: %v", ok, err, test.tells)
			}
		})
	}
}
