//go:build server

package script_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

func TestPublishClassicShardedOrBoth(t *testing.T) {
	server := redistest.Single(t)
	for name, free := range announcers {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			classic, sharded := w.listen(t, channel, false), w.listen(t, channel, true)
			for _, test := range []struct {
				p                script.Publish
				classic, sharded []string
			}{
				{script.Classic, []string{"0"}, nil},
				{script.Sharded, nil, []string{"0"}},
				{script.Both, []string{"0"}, []string{"0"}},
			} {
				w.hold(t, job, lease, me, "1")
				if ok, err := free(t.Context(), w, test.p); !ok || err != nil {
					t.Errorf("%v: %v, %v, want true", test.p, ok, err)
				}
				w.wantDump(t, job, "nothing")
				classic.want(t, test.classic...)
				sharded.want(t, test.sharded...)
			}
		})
	}
}

// In the words of Redis 7.0, and of later ones and Valkey.
var (
	channelRefused = regexp.MustCompile("publish to the channel|access a channel")
	commandRefused = regexp.MustCompile("can't run this command|no permissions to run the 's?publish' command")
)

// Parts of a message that Redis may refuse, and the clients that the rest must reach.
func TestPublishRefused(t *testing.T) {
	server := redistest.Single(t)
	for what, free := range announcers {
		for _, test := range []struct {
			name             string
			rules            []string
			p                script.Publish
			classic, sharded []string
			reason           *regexp.Regexp
		}{
			{"no channel", []string{"resetchannels"}, script.Classic, nil, nil, channelRefused},
			{"no channel, both", []string{"resetchannels"}, script.Both, nil, nil, channelRefused},
			{"other channel", []string{"resetchannels", "&other"}, script.Classic, nil, nil, channelRefused},
			{"no PUBLISH", []string{"-publish"}, script.Classic, nil, nil, commandRefused},
			{"no SPUBLISH", []string{"-spublish"}, script.Sharded, nil, nil, commandRefused},
			{"no PUBLISH, both", []string{"-publish"}, script.Both, nil, []string{"0"}, commandRefused},
			{"no SPUBLISH, both", []string{"-spublish"}, script.Both, []string{"0"}, nil, commandRefused},
		} {
			t.Run(what+"/"+test.name, func(t *testing.T) {
				w := realWorld(t, server)
				classic, sharded := w.listen(t, channel, false), w.listen(t, channel, true)
				w.hold(t, job, lease, me, "1")
				d := w.login(t, append([]string{"+@all", "~*", "&*"}, test.rules...)...)
				ok, err := free(t.Context(), d, test.p)
				if !ok || err == nil || driver.ClassOf(err) != driver.Denied {
					t.Fatalf("got %v, %v, want true and an error of class denied", ok, err)
				}
				if !test.reason.MatchString(err.Error()) {
					t.Errorf("the error is %q, want it to match %s", err, test.reason)
				}
				w.wantDump(t, job, "nothing")
				classic.want(t, test.classic...)
				sharded.want(t, test.sharded...)
				if ok, err := free(t.Context(), d, test.p); ok || err != nil {
					t.Errorf("once more: %v, %v, want false", ok, err)
				}
			})
		}
	}
}

// The state changes before the message is published, and nothing comes after it:
// a woken waiter finds the lock free, and a message that fails has nothing
// to undo.
func TestPublishIsLast(t *testing.T) {
	server := redistest.Single(t)
	for name, free := range announcers {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			w.hold(t, job, lease, me, "1")
			monitor := w.connect(t)
			monitor.must(t, "MONITOR")
			if ok, err := free(t.Context(), w, script.Both); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
			w.must(t, "ECHO", last)
			var commands []string
			for {
				v, err := monitor.receive()
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(v.Str(), last) {
					break
				}
				if _, command, ok := strings.Cut(v.Str(), " lua] "); ok {
					commands = append(commands, strings.Fields(command)[0])
				}
			}
			freed := slices.Index(commands, `"hdel"`)
			if want := []string{`"hdel"`, `"publish"`, `"spublish"`}; freed < 0 || !slices.Equal(commands[freed:], want) {
				t.Errorf("the script ran %v, want it to end with %v", commands, want)
			}
		})
	}
}
