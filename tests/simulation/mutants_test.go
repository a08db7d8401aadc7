package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

// mutant changes the drivers of all clients, and so mortise; nil leaves them as they are.
type mutant = func(l *mortisetest.Link) driver.Driver

// mutated is a link that changes calls before they are sent.
type mutated struct {
	*mortisetest.Link
	change func(driver.Call) driver.Call
}

func (m *mutated) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	return m.Link.Eval(ctx, m.change(call))
}

func (m *mutated) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	return m.Link.Batch(ctx, m.changed(calls))
}

func (m *mutated) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	return m.Link.EvalWait(ctx, m.changed(calls), wait)
}

func (m *mutated) changed(calls []driver.Call) []driver.Call {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i] = m.change(calls[i])
	}
	return calls
}

// inScript returns a mutant that replaces text of a script.
func inScript(name, text, other string) mutant {
	var once sync.Once
	var script *driver.Script
	return func(l *mortisetest.Link) driver.Driver {
		return &mutated{l, func(call driver.Call) driver.Call {
			if call.Script.Name() == name {
				once.Do(func() {
					if !strings.Contains(call.Script.Source(), text) {
						panic(fmt.Sprintf("%s does not contain %q", name, text))
					}
					script = driver.NewScript(name, strings.Replace(call.Script.Source(), text, other, 1))
				})
				call.Script = script
			}
			return call
		}}
	}
}

// withoutBraces takes names that only braces tell apart for one.
func withoutBraces(l *mortisetest.Link) driver.Driver {
	return &mutated{l, func(call driver.Call) driver.Call {
		if strings.HasPrefix(call.Script.Name(), "lock_") {
			call.Keys = slices.Clone(call.Keys)
			call.Keys[0] = strings.NewReplacer("{", "", "}", "").Replace(call.Keys[0])
		}
		return call
	}}
}

// The list of mistakes in scripts/mutants is longer: those tests must find, too. These show that
// each checker of the simulation can fail.

// mutants are mistakes, each with what the story about it must say.
var mutants = map[string]struct {
	mutant mutant
	kind   string // it can show in plans with an operation of this kind
	want   string
}{
	"a release does not look whose the lock is": {
		inScript("lock_release", "redis.call('hdel', KEYS[1], ARGV[1]) == 0", "redis.call('del', KEYS[1]) == 0"), "Lock", "at the same time"},
	"a lock that is held is acquired": {
		inScript("lock_acquire", "if holders == 0 and not left then", "if holders == 0 and not left or redis.call('del', KEYS[1]) == 1 then"), "Lock", "at the same time"},
	"a renewal does not renew": {
		inScript("lock_renew", "redis.call('pexpire', KEYS[i], lease)", "local _ = lease"), "Lock", "at the same time"},
	"tokens do not rise": {
		inScript("fenced_acquire", "redis.pcall('incr', KEYS[2])", "(tonumber(redis.call('get', KEYS[2]) or redis.call('incr', KEYS[2])))"), "FencedLock", "do not rise"},
	"two names are one lock": {withoutBraces, "Lock", "nobody has it"},
	"a writer does not see readers": {
		inScript("rw_write_acquire", "by, count, left, more, dead = reader(fields, '')", "all, dead = true, {}"), "write", "at the same time"},
	"permits are given that are not there": {
		inScript("permit_acquire", "if free < wanted + leave then", "if false then"), "permits", "at the same time"},
	"a count is counted again when its reply is lost": {
		inScript("latch_count_down", "if told then return told end", ""), "latch", "does not open when"},
	"a release of permits is done again when its reply is lost": {
		inScript("semaphore_release", "if told then return told end", ""), "semaphore", "more permits are taken"},
	"a barrier opens before the last has arrived": {
		inScript("barrier_await", "if arrived + 1 >= tonumber(ARGV[6])", "if arrived + 2 >= tonumber(ARGV[6])"), "barrier", "before all"},
	"a fair lock goes to the waiter that came last": {
		inScript("fair_acquire", "redis.pcall('rpush', queue, owner)", "redis.pcall('lpush', queue, owner)"), "FairLock", "in another order"},
	"a term begins while another lasts": {
		inScript("election_campaign", "if not taken then", "if true then"), "election", "at the same time"},
	"a release of permits gives nothing back": {
		inScript("semaphore_release", "change('incrby', number, ARGV[3])", "change('incrby', number, 0)"), "semaphore", "in the end"},
	"a release of permits gives one less back": {
		inScript("semaphore_release", "change('incrby', number, ARGV[3])", "change('incrby', number, ARGV[3] - 1)"), "semaphore", "in the end"},
	"permits are kept that nobody knows of": {
		inScript("semaphore_undo", "redis.pcall('incrby', number, ARGV[3])", "redis.pcall('incrby', number, 0)"), "semaphore", "in the end"},
	"permits are taken again when the reply is lost": {
		inScript("semaphore_acquire", "if told and told[1] == 1 then return {1, 0} end", "if told and told[1] == 1 then told = nil end"), "semaphore", "in the end"},
	"a latch does not count": {
		inScript("latch_count_down", "if left > 0 then done = change('decr', number)", "if true then done = change('incrby', number, 0)"), "latch", "does not open when"},
	"a renewal does not renew a reader": {
		inScript("rw_read_renew", "if left < lease then", "if false then"), "read", "at the same time"},
	"a renewal does not renew the values of a group": {
		inScript("group_renew", "if till then", "if false then"), "group", "at the same time"},
	"a renewal does not renew permits": {
		inScript("permit_renew", "redis.call('zadd', out, till, permit)", "local _ = 1"), "permits", "at the same time"},
	"a renewal does not renew a member of a double barrier": {
		inScript("double_renew", "redis.call('hset', KEYS[i], party, now + (long and most or lease))", "local _ = 1"), "double barrier", "all have left and they have not"},
	"several locks are acquired, and one is held": {
		inScript("multi_acquire", "if holder[1] ~= ARGV[1] then", "if i == 1 and holder[1] ~= ARGV[1] then"), "multi plain", "at the same time"},
	"of several locks one is not released": {
		inScript("multi_release", "for i = 1, n do\n  if states[i] == 1 then redis", "for i = 1, n - 1 do\n  if states[i] == 1 then redis"), "multi plain", "nobody has it"},
	"a late copy proclaims an old value": {
		inScript("election_proclaim", ">= tonumber(ARGV[3]) then", ">= 1e18 then"), "election", "cannot have been"},
	"a party that gives up does not break the barrier": {
		inScript("barrier_leave", "shatter('left', party)", "redis.call('hdel', barrier, party)"), "barrier", "the barrier \""},
	"a lock whose MinHold is not over is free": {
		inScript("lock_keep", "redis.call('hset', KEYS[1], ARGV[2], 1)", "local _ = now"), "Lock", "MinHold of a"},
	"a holder is not told that Redis has lost its lock": {
		inScript("lock_renew", "states[i] = -redis.call('exists', KEYS[i])", "states[i] = 1"), "Lock", "does not know that Redis has lost it"},
	"a lock is never released": {
		inScript("lock_release", "redis.call('hdel', KEYS[1], ARGV[1]) == 0", "redis.call('persist', KEYS[1]) == 2"), "Lock", "are left"},
}

// The simulation notices mistakes: each of these makes a seed fail, and the story says how.
func TestSimulationFindsMutants(t *testing.T) {
	const enough = 300 // seeds; most mistakes show in the first ten that have the kind
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(enough) {
				p := newPlan(seed)
				if !p.has(m.kind) {
					continue
				}
				o := run(t, p, m.mutant)
				story := strings.Join(o.wrong, "\n")
				if !strings.Contains(story, m.want) {
					continue
				}
				if *tell {
					t.Logf("seed %d\n%s", seed, told(t, seed, m.mutant))
				}
				return
			}
			t.Errorf("%d seeds have not found it", enough)
		})
	}
}
