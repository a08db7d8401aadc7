package doctor

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// What servers tell in situations that a test cannot bring about.
func TestRareSituations(t *testing.T) {
	master := func(more ...string) *server {
		s := &server{addr: "redis:6379", info: map[string]string{"role": "master"}, conf: map[string]string{}}
		for i := 0; i < len(more); i += 2 {
			s.info[more[i]], s.conf[more[i]] = more[i+1], more[i+1]
		}
		return s
	}
	for name, test := range map[string]struct {
		server   *server
		look     func(*exam)
		id       string
		severity Severity
		words    string
	}{
		"the append-only file cannot be written": {
			master("appendonly", "yes", "aof_last_write_status", "err"), func(e *exam) { e.persistence(t.Context()) }, "persistence", Critical, "refuses all writes"},
		"a snapshot has failed": {
			master("appendonly", "no", "save", "60 1", "rdb_last_bgsave_status", "err"), func(e *exam) { e.persistence(t.Context()) }, "persistence", Critical, "snapshot has failed"},
		"the server is loading": {
			master("loading", "1"), func(e *exam) { e.role(t.Context()) }, "role", Critical, "is loading"},
		"memory is scarce": {
			master("maxmemory", "1000000000", "maxmemory_policy", "noeviction", "used_memory", "950000000"), func(e *exam) { e.memory(t.Context()) }, "memory", Warning, "beyond that nothing can be locked"},
		"the machine's memory is scarce": {
			master("maxmemory", "0", "used_memory", "950000000", "total_system_memory", "1000000000"), func(e *exam) { e.memory(t.Context()) }, "memory", Warning, "the machine has"},
		"a server that evicts is not short of memory": {
			master("maxmemory", "1000000000", "maxmemory_policy", "allkeys-lru", "used_memory", "999999999"), func(e *exam) { e.memory(t.Context()) }, "memory", OK, "are in use"},
		"almost no client more": {
			master("connected_clients", "9600", "maxclients", "10000"), func(e *exam) { e.clientLimits(t.Context()) }, "max-clients", Critical, "turns clients away"},
		"the limit of clients is not known": {
			master("connected_clients", "9600"), func(e *exam) { e.clientLimits(t.Context()) }, "max-clients", Unknown, "not known"},
		"hardly anything may wait for a subscriber": {
			master("client-output-buffer-limit", "normal 0 0 0 pubsub 1000 0 60"), func(e *exam) { e.buffers(t.Context()) }, "pubsub-buffer", Warning,
			"a subscriber with more than 1000 bytes waiting for it is disconnected"},
		"little may wait for a subscriber for long": {
			master("client-output-buffer-limit", "pubsub 65536 1 60"), func(e *exam) { e.buffers(t.Context()) }, "pubsub-buffer", Warning,
			"a subscriber with more than 64 KiB waiting for it, or more than 1 byte for 60 s is disconnected"},
		"a replica is far behind": {
			master("connected_slaves", "1", "slave0", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=12"), func(e *exam) { e.replicas(t.Context()) }, "replicas", Warning, `"10.0.0.2:6379"`},
		"a replica that is no line of INFO": {
			master("connected_slaves", "1", "slave0", "\x1b[2J"), func(e *exam) { e.replicas(t.Context()) }, "replicas", Warning, "was last heard -1 s ago"},
		"a number of replicas that nobody has": {
			master("connected_slaves", "9223372036854775807"), func(e *exam) { e.replicas(t.Context()) }, "replicas", Warning, "is"},
	} {
		e := &exam{report: &Report{}, servers: []*server{test.server}, o: Options{RedisCLI: redisCLI}}
		test.look(e)
		found := e.report.Find(test.id)
		if len(found) != 1 || found[0].Severity != test.severity || !strings.Contains(found[0].Found, test.words) || strings.Contains(found[0].Found, "\x1b") {
			t.Errorf("%s: %+v, want %s with %q", name, found, test.severity, test.words)
		}
	}
}

// clocked is the driver of a cluster whose servers have clocks.
type clocked struct {
	driver.Driver
	ahead map[string]time.Duration
}

func (c clocked) Servers(context.Context) ([]string, error) { return []string{"a:1", "b:1"}, nil }

func (c clocked) Command(_ context.Context, server string, words ...string) (driver.Value, error) {
	if words[0] != "TIME" {
		return driver.Value{}, &driver.Error{Class: driver.Other, Err: text("not known")}
	}
	now := time.Now().Add(c.ahead[server])
	return driver.ArrayValue([]driver.Value{
		driver.StringValue(strconv.FormatInt(now.Unix(), 10)), driver.StringValue(strconv.Itoa(now.Nanosecond() / 1000)),
	}), nil
}

func TestClocksOfACluster(t *testing.T) {
	for _, test := range []struct {
		a, b           time.Duration
		clock, between Severity
		words          string
	}{
		{0, 500 * time.Millisecond, OK, OK, ""},
		{0, 3 * time.Second, Warning, Warning, "the clock of b:1 is 3s ahead of that of a:1"},
		{-time.Hour, -time.Hour, Warning, OK, ""},
		{2 * time.Second, -2 * time.Second, Warning, Warning, "the clock of a:1 is 4s ahead of that of b:1"},
	} {
		d := clocked{ahead: map[string]time.Duration{"a:1": test.a, "b:1": test.b}}
		e := &exam{d: d, report: &Report{}, topology: driver.Topology{Cluster: true}, servers: []*server{{addr: "a:1"}, {addr: "b:1"}}, o: Options{RedisCLI: redisCLI}}
		e.clocks(t.Context())
		own, between := e.report.Find("clock"), e.report.Find("clock-between-servers")
		if len(own) != 1 || len(between) != 1 || own[0].Severity != test.clock || between[0].Severity != test.between || !strings.Contains(between[0].Found, test.words) {
			t.Errorf("%v and %v: %+v, %+v", test.a, test.b, own, between)
		}
	}
}

// frozen is the driver of a cluster of three servers, of which the first does not answer.
type frozen struct{ driver.Driver }

func (frozen) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

func (frozen) Shard(key string) string { return []string{"a:1", "b:1", "c:1"}[len(key)%3] }

// Eval without a key happens to ask the first server.
func (f frozen) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if len(call.Keys) == 0 || f.Shard(call.Keys[0]) == "a:1" {
		<-ctx.Done()
		return driver.Value{}, driver.ContextError(ctx, driver.Unknown)
	}
	return driver.Value{}, nil
}

func (f frozen) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	var asked sync.WaitGroup
	for i := range calls {
		asked.Go(func() { results[i].Value, results[i].Err = f.Eval(ctx, calls[i]) })
	}
	asked.Wait()
	return results
}

// One server of a cluster that does not answer leaves the others to be examined, whichever is asked first.
func TestConnectionOfAClusterWithAFrozenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exam{d: frozen{}, report: &Report{}, o: Options{RedisCLI: redisCLI}}
		start := time.Now()
		e.connection(t.Context())
		if took := time.Since(start); e.report.Err != nil || took != 2*limit {
			t.Errorf("%v after %v, want no error after %v", e.report.Err, took, 2*limit)
		}
		if f := e.report.Find("connection"); len(f) != 1 || f[0].Severity != Critical || !strings.Contains(f[0].Found, "one of the servers does not answer") {
			t.Errorf("it finds %+v", f)
		}
		if shard := e.d.Shard(e.answering); e.answering == "" || shard == "a:1" {
			t.Errorf("it goes on with %q of %s", e.answering, shard)
		}
	})
}

// sharded is a cluster of three servers, each of which serves the keys with some of the digits.
type sharded struct{ driver.Driver }

func (sharded) Shard(key string) string { return []string{"a:1", "b:1", "c:1"}[key[len(key)-2]%3] }

// A server of a cluster that does not answer is named, and what is examined with scripts leaves it out.
func TestSilentServers(t *testing.T) {
	lost := &driver.Error{Class: driver.Unknown, Err: context.DeadlineExceeded}
	e := &exam{
		d: sharded{}, report: &Report{}, topology: driver.Topology{Cluster: true}, o: Options{RedisCLI: redisCLI},
		servers: []*server{{addr: "a:1"}, {addr: "b:1", err: lost}, {addr: "c:1", err: errNoCommands}, {addr: "d:1", err: lost}},
	}
	e.silent(t.Context())
	found := e.report.Find("silent-server")
	if len(found) != 2 || found[0].Server != "b:1" || found[0].Severity != Critical || found[1].Server != "d:1" || found[1].Severity != Warning {
		t.Errorf("found %+v, want b:1, which is critical, and d:1, which serves nothing", found)
	}
	keys := e.keys()
	if len(keys) != 2 || e.d.Shard(keys[0]) == "b:1" || e.d.Shard(keys[1]) == "b:1" {
		t.Errorf("it would try %q, want one key of a:1 and one of c:1", keys)
	}
}

// On a cluster a rule is for all servers.
func TestRuleOfACluster(t *testing.T) {
	e := &exam{
		topology: driver.Topology{Cluster: true}, servers: []*server{{addr: "a:1"}, {addr: "b:1"}}, user: "worker",
		o: Options{Prefix: "app:", AdminCLI: func(server string) string { return redisCLI(server) + " --user ADMIN" }},
	}
	if got, want := e.setuser("+info +config|get"), "redis-cli -h a -p 1 --user ADMIN --cluster call a:1 acl setuser worker +info '+config|get'"; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	if got, want := e.acl(KindFair, KindRecords), "mortise --prefix app: acl --add --user worker --kind fair,records --cluster"; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
}
