// Package script runs the Lua scripts of mortise. Each operation is one file
// in lua/, whose header is its contract, and one function here with the same
// name. Nothing else in mortise calls Eval.
//
// Every script is safe to run twice for the same owner: it writes absolute
// values, and first checks that the owner still holds what it will
// change. Every script checks first, writes last and publishes at the very
// end, because Redis does not roll back a failed script.
package script

import (
	"embed"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
)

//go:embed lua/*.lua
var sources embed.FS

// load returns the script called name, after the parts that it shares with
// others.
func load(name string, shared ...string) *driver.Script {
	return loadText(name, sourceOf(shared...))
}

// loadAround returns the script called name, after the parts that it shares with others, and after
// another script, which is its function called function.
func loadAround(name, function, inner string, shared ...string) *driver.Script {
	return loadText(name, sourceOf(shared...)+"local function "+function+"()\n"+sourceOf(inner)+"end\n")
}

// loadText returns the script called name, after some text.
func loadText(name, before string) *driver.Script {
	names = append(names, name)
	return driver.NewScript(name, before+sourceOf(name))
}

// sourceOf returns the text of parts of scripts.
func sourceOf(parts ...string) string {
	var source strings.Builder
	for _, part := range parts {
		text, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic("mortise: script is not embedded: " + err.Error())
		}
		source.Write(text)
	}
	return source.String()
}

// names is only changed while the package is initialized.
var names []string

// Names returns the names of all scripts, in no order.
func Names() []string { return slices.Clone(names) }

// Publish says how scripts publish: with PUBLISH, with SPUBLISH, or both.
type Publish uint8

// The ways to publish. Redisson uses Sharded on a cluster that knows it, and
// Classic everywhere else.
const (
	Classic Publish = iota
	Sharded
	Both
	Silent // not at all
)

// commands is the tail of a publishing script's arguments. It must not be modified.
func (p Publish) commands() []string { return publishing[p] }

var publishing = [...][]string{
	Classic: {"publish"},
	Sharded: {"spublish"},
	Both:    {"publish", "spublish"},
	Silent:  nil,
}

// millis formats a lease for Redis. A fraction of a millisecond is dropped, never
// added: the key must not outlive the lease that the holder has learned.
func millis(d time.Duration) string {
	if last := lastLease.Load(); last != nil && last.lease == d {
		return last.text
	}
	text := strconv.FormatInt(d.Milliseconds(), 10)
	lastLease.Store(&formatted{d, text})
	return text
}

// lastLease caches the last formatted lease: most clients have only one.
var lastLease atomic.Pointer[formatted]

type formatted struct {
	lease time.Duration
	text  string
}

// ttl is the reverse of millis. A key without TTL is reported as -1.
func ttl(v driver.Value) time.Duration {
	if v.Int() < 0 {
		return -1
	}
	return span(v.Int())
}

// span returns a number of milliseconds as a duration. Redis has longer times than Go: they are
// cut to 250 years, so that a sum with a lease does not overflow.
func span(ms int64) time.Duration {
	const longest = 250 * 365 * 24 * 60 * 60 * 1000
	return time.Duration(max(-longest, min(ms, longest))) * time.Millisecond
}
