package loadtest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// told is what a server reports about itself.
type told struct {
	version string
	cpu     float64 // seconds of processor time it has used
	scripts int64   // run for clients
}

// info asks the server for each section separately, which servers before Redis 7 require.
var info = driver.NewScript("info", `return {redis.call('INFO', 'server'), redis.call('INFO', 'cpu'), redis.call('INFO', 'commandstats')}`)

// ask returns what the server reports about itself, or why it does not. On a cluster it asks one
// server.
func (t *loadTest) ask(ctx context.Context, c *client) (says told, why string) {
	v, err := c.driver.Eval(ctx, driver.Call{Script: info, Keys: []string{t.Prefix + "info"}})
	if err != nil {
		if driver.ClassOf(err) == driver.Denied {
			return says, "the user has no right to INFO"
		}
		return says, "the server does not answer INFO"
	}
	says.version = field(v.At(0).Str(), "redis_version")
	for _, part := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(field(v.At(1).Str(), part), 64)
		if err != nil {
			return says, "the server does not report its processor time"
		}
		says.cpu += seconds
	}
	stats := field(v.At(2).Str(), "cmdstat_evalsha")
	calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
	if says.scripts, err = strconv.ParseInt(calls, 10, 64); err != nil {
		return says, "the server does not report how many scripts it has run"
	}
	return says, ""
}

// field returns the value of a line of INFO, or "".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// since returns the cost of one script for the server, since before.
func (t told) since(before told, elapsed time.Duration) *Cost {
	return &Cost{
		Version: t.version,
		Script:  (t.cpu - before.cpu) * 1e6 / float64(max(1, t.scripts-before.scripts)),
		Busy:    (t.cpu - before.cpu) / elapsed.Seconds(),
	}
}
