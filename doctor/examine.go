package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// Options are the options of an examination. The zero value of each field is its default.
type Options struct {
	// Prefix is that of the clients: see mortise.Options.Prefix. Only what has it is looked at, and only
	// the rights to that are tried.
	Prefix string
	// Keys is how many keys to look at, at most, about: 100,000 by default. Below 0 there is no limit. The
	// server is asked for small pages of keys, and is left alone for three quarters of the time.
	Keys int
	// Kinds are the kinds of lock that must work; see [Kind]. None means that no particular one must, and
	// the report says which do.
	Kinds []Kind
	// Accept has the ids of findings that do not count for [Report.Worst].
	Accept []string
	// Fix has the ids of findings to mend, as far as that is certain to harm nobody. Each change is made
	// by a script that looks again first.
	Fix []string
	// User is the name of the user, if it is known: the server may not say.
	User string
	// Passed has the phases of package connect that the connection has passed: resolve, connect, tls, auth.
	// The report names them. Without them it does not know.
	Passed []string
	// Sentinels are those that watch the server, and Master is the name by which they know it. Examine does not
	// take ownership of their drivers.
	Sentinels []Sentinel
	Master    string
	// Plain says that the connection is not encrypted, and leaves this machine.
	Plain bool
	// Mortise is how a command line begins that runs mortise for this Redis, as mortise --redis redis://redis:6379. By
	// default it is mortise alone. The prefix follows by itself.
	Mortise string
	// RedisCLI returns how a command line begins that runs redis-cli for a server with that address, which
	// is empty for any server. By default it is redis-cli, with -h and -p for an address.
	RedisCLI func(server string) string
	// AdminCLI is the same for somebody who may change users. By default it is RedisCLI, with --user ADMIN --askpass
	// behind it.
	AdminCLI func(server string) string
}

// limit bounds each question to Redis. Tests change it.
var limit = 5 * time.Second

// Examine looks at the Redis behind d and at what lies in it, and returns what it has found. It takes
// some seconds: it waits for messages, reads some records twice, and searches keys slowly. It reads only,
// but for two messages on a channel of its own, and what [Options.Fix] names. A script that Redis does not
// know yet is cached there.
//
// What cannot be examined is no error, but a finding; if Redis does not answer at all, [Report.Err] says
// why. The error is that of Options that are not acceptable, or the cause of ctx if it ends before the
// examination; then the report has what was found so far.
//
// Examine does not take ownership of d, and may be called at the same time as anything else that uses d.
func Examine(ctx context.Context, d driver.Driver, options *Options) (*Report, error) {
	e := &exam{d: d, report: &Report{Keys: -1}}
	if options != nil {
		e.o = *options
	}
	if err := e.o.check(); err != nil {
		return nil, err
	}
	e.o.Keys = cmp.Or(e.o.Keys, 100_000)
	if e.o.RedisCLI == nil {
		e.o.RedisCLI = redisCLI
	}
	if e.o.AdminCLI == nil {
		e.o.AdminCLI = func(server string) string { return e.o.RedisCLI(server) + " --user ADMIN --askpass" }
	}
	e.client = mortise.New(borrowed{d}, &mortise.Options{Prefix: e.o.Prefix, AllowAnyName: true, RetryFor: limit, Identity: mortise.Identity{Hide: true}})
	defer func() { _ = e.client.Close() }() // it has no holds
	e.run(ctx, e.connection, e.readServers)
	e.run(ctx, e.checks()...)
	e.report.finish(e.o.Accept)
	if ctx.Err() != nil { // what came last may be cut short
		return e.report, context.Cause(ctx)
	}
	return e.report, nil
}

func (o *Options) check() error {
	for _, id := range o.Fix {
		switch {
		case fixable[id]:
		case slices.Contains(ids, id):
			return fmt.Errorf("doctor: %w: there is no fix for %q: the finding says what to do, and the command for that; there are fixes for %s", mortise.ErrInvalid, id, strings.Join(Fixable(), ", "))
		default:
			return fmt.Errorf("doctor: %w: there is nothing to fix called %q; there are %s", mortise.ErrInvalid, id, strings.Join(Fixable(), ", "))
		}
	}
	for _, id := range o.Accept {
		if !slices.Contains(ids, id) {
			return fmt.Errorf("doctor: %w: no finding is called %q; there are %s", mortise.ErrInvalid, id, strings.Join(ids, ", "))
		}
	}
	for _, kind := range o.Kinds {
		if kind.row() == nil {
			return fmt.Errorf("doctor: %w: there is no kind of lock called %q; there are %s", mortise.ErrInvalid, string(kind), kindsText())
		}
	}
	return nil
}

// borrowed is a driver that its owner closes.
type borrowed struct{ driver.Driver }

func (borrowed) Close() error { return nil }

// exam is one examination.
type exam struct {
	d      driver.Driver
	o      Options
	client *mortise.Client
	report *Report

	topology  driver.Topology
	answering string // a key of a server of a cluster that has answered where another has not; empty otherwise
	servers   []*server
	user      string // of the connection; empty if it is not known
}

// run examines on, unless Redis does not answer.
func (e *exam) run(ctx context.Context, checks ...func(context.Context)) {
	for _, check := range checks {
		if ctx.Err() != nil || e.report.Err != nil {
			return
		}
		check(ctx)
	}
}

// checks returns what is examined of the servers that have answered.
func (e *exam) checks() []func(context.Context) {
	if len(e.servers) > 0 && e.servers[0].embedded {
		return []func(context.Context){e.embedded, e.scripts, e.clocks, e.messages, e.records, e.searchKeys}
	}
	return []func(context.Context){
		e.silent, e.version, e.scripts, e.writes, e.clocks,
		e.role, e.sentinels, e.cluster, e.replicas,
		e.persistence,
		e.eviction, e.memory,
		e.clientLimits, e.buffers, e.keepalive, e.idleTimeout, e.events,
		e.messages,
		e.rights,
		e.records, e.versions,
		e.searchKeys,
	}
}

func (e *exam) add(f Finding) { e.report.Findings = append(e.report.Findings, f) }

// connection asks the first question.
func (e *exam) connection(ctx context.Context) {
	err := e.readTopology(ctx)
	var took time.Duration
	if err == nil {
		e.learn(ctx)
		start := time.Now()
		_, err = e.eval(ctx, nothing, "")
		took = time.Since(start)
	}
	var silent *Finding
	if err != nil && !mayNot(err) { // the rights are another matter
		f := refused("", "", err)
		if !e.answersElsewhere(ctx) {
			e.report.Err = err
			e.add(f)
			return
		}
		f.Found = "one of the servers does not answer: " + said(err)
		silent = &f
	}
	for _, p := range phases {
		if slices.Contains(e.o.Passed, p.name) {
			e.add(Finding{ID: "connection-" + p.name, Group: GroupConnection, Severity: OK, Found: p.done})
		}
	}
	if e.o.Plain {
		e.add(Finding{
			ID: "connection-tls", Group: GroupConnection, Severity: Info, Found: "the connection is not encrypted: the password, and the names of locks, can be read on the way",
			Do: "If the network is not your own, use TLS: rediss:// in the URL.",
		})
	}
	if silent != nil {
		e.add(*silent)
		return
	}
	e.add(Finding{ID: "connection", Group: GroupConnection, Severity: OK, Found: fmt.Sprintf("the first script was answered after %s", short(took))})
}

func (e *exam) readTopology(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e.topology, err = e.d.Topology(ctx)
	return err
}

// answersElsewhere reports whether a server of a cluster answers. It asks all at once.
func (e *exam) answersElsewhere(ctx context.Context) bool {
	if !e.topology.Cluster {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	keys := e.keys()
	calls := make([]driver.Call, len(keys))
	for i := range keys {
		calls[i] = driver.Call{Script: nothing, Keys: keys[i : i+1]}
	}
	i := slices.IndexFunc(e.d.Batch(ctx, calls), func(r driver.Result) bool {
		return r.Err == nil || driver.ClassOf(r.Err) == driver.Passing
	})
	if i >= 0 {
		e.answering = keys[i]
	}
	return i >= 0
}
