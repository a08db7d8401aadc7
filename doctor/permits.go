package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

//go:embed lua/permits.lua
var permitsText string

var lookAtPermits = driver.NewScript("doctor_permits", permitsText)

// expiredFor is for how long a permit must have expired to be worth mentioning.
const expiredFor = 10 * time.Second

// semaphore is what was seen of the permits of a semaphore.
type semaphore struct {
	name                    string
	expired, endless, taken int64
	all                     int64
	number                  string
}

// semaphores looks at the semaphores whose permits end under those keys. The error is the last one that lies with
// the server or the user.
func (e *exam) semaphores(ctx context.Context, keys []string) (seen []semaphore, failed error) {
	for _, key := range keys {
		name := permitsName(key)
		if name == "" || !strings.HasPrefix(name, e.o.Prefix) {
			continue
		}
		s, err := e.semaphore(ctx, name, "")
		switch {
		case err == nil && s.all > 0:
			seen = append(seen, s)
		case err != nil && !foreign(err):
			failed = err
		}
	}
	return seen, failed
}

// permits looks at semaphores whose permits expire.
func (e *exam) permits(ctx context.Context, keys []string) {
	seen, failed := e.semaphores(ctx, keys)
	if failed != nil && len(seen) == 0 {
		e.add(e.withoutRights("permits", GroupKeys, failed, KindPermits))
		return
	}
	if len(seen) == 0 {
		e.add(Finding{ID: "permits", Group: GroupKeys, Severity: OK, Found: "no permits are held, as far as was looked at"})
		return
	}
	fine := len(e.report.Findings)
	e.permitsOf(seen, "permits-expired", Info, func(s semaphore) bool { return s.expired > 0 },
		"with permits that have expired, and were not taken back",
		"The next acquisition takes them back. Until then the number of available permits is too low for those that only read it.", "--fix")
	e.permitsOf(seen, "permits-without-number", Critical, func(s semaphore) bool { return s.number == "" || s.number == "-" },
		"with permits that are held, and without a number of available ones, so that nobody gets a permit",
		"The number was deleted, evicted, or replaced. Set how many permits there are.", "set N")
	e.permitsOf(seen, "permits-endless", Warning, func(s semaphore) bool { return s.endless > 0 },
		"with permits without an end, which nobody gets back if their holders are gone",
		"mortise's permits always end; Redisson's do not, if they are acquired without a lease. See whether their holders live, and release the others.", "show")
	e.permitsOf(seen, "permits-below-zero", Info, func(s semaphore) bool { n, err := strconv.ParseInt(s.number, 10, 64); return err == nil && n < 0 },
		"with a number of available permits below zero, because it was lowered while more were held",
		"It passes when they are released.", "show")
	if len(e.report.Findings) == fine {
		e.add(Finding{ID: "permits", Group: GroupKeys, Severity: OK, Found: "the permits of " + several(len(seen), "semaphore") + " are in order"})
	}
	var names []string
	for _, s := range seen {
		if s.expired > 0 {
			names = append(names, strings.TrimPrefix(s.name, e.o.Prefix))
		}
	}
	e.fix(ctx, "permits-expired", names, func(ctx context.Context, name string) (string, error) {
		s, err := e.semaphore(ctx, e.o.Prefix+name, "fix")
		if err != nil || s.taken == 0 {
			return "", err
		}
		return "took back " + several(int(s.taken), "expired permit"), nil
	})
}

// permitsOf adds a finding about those semaphores of which something is true.
func (e *exam) permitsOf(seen []semaphore, id string, severity Severity, is func(semaphore) bool, found, do, how string) {
	var names []string
	for _, s := range seen {
		if is(s) {
			names = append(names, strings.TrimPrefix(s.name, e.o.Prefix))
		}
	}
	if len(names) == 0 {
		return
	}
	f := Finding{
		ID: id, Group: GroupKeys, Severity: severity, Found: fmt.Sprintf("semaphores %s: %d, %s", found, len(names), listed(names)),
		Do: do, Command: e.mortise("sem " + nameArg(names[0]) + " " + how),
	}
	if f.Fixable = fixable[id]; f.Fixable {
		f.Command = e.mortise("doctor --fix " + id)
	}
	e.add(f.about(names))
}

// semaphore looks at the permits of a semaphore, and mends them if how is fix.
func (e *exam) semaphore(ctx context.Context, name, how string) (semaphore, error) {
	args := append([]string{strconv.FormatInt(expiredFor.Milliseconds(), 10), how, keyspace.SemaphoreChannel(name)}, e.announce()...)
	v, err := e.d.Eval(ctx, driver.Call{Script: lookAtPermits, Keys: []string{keyspace.PermitExpiries(name), name}, Args: args})
	return semaphore{
		name: name, expired: v.At(0).Int(), endless: v.At(1).Int(), all: v.At(2).Int(), number: v.At(3).Str(), taken: v.At(4).Int(),
	}, err
}

// announce returns the commands by which Redisson and mortise announce.
func (e *exam) announce() []string {
	if e.topology.Sharded {
		return []string{"publish", "spublish"}
	}
	return []string{"publish"}
}

// permitsName returns the name of the semaphore that a key has the ends of the permits of; empty if none.
func permitsName(key string) string {
	name := strings.TrimSuffix(key, ":timeout")
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && keyspace.PermitExpiries(inner) == key {
			return inner
		}
	}
	if keyspace.PermitExpiries(name) == key {
		return name
	}
	return ""
}
