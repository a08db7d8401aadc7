package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
)

// Masters die again and again, and a replica that is a little behind takes over. No lock that all replicas have acknowledged
// is held twice, and no token is drawn twice, in whatever state between two steps of an acquisition the new master is.
func TestFailoverHistories(t *testing.T) {
	eachSeed(t, func(w *crowd) { newMaster(w).run() }, map[string]int{"acquired": 25, "failovers": 4, "failovers under a lock": 3})
}

// replicaLag is by how much the replica is behind at most.
const replicaLag = 30 * time.Millisecond

// master is a server with a replica that is there only in words: what it had a moment ago comes back in a failover.
type master struct {
	*crowd
	all []string // names of locks

	mu    sync.Mutex // guards what follows, and orders all commands
	r     *rand.Rand
	base  driver.Driver
	past  []state // what there was after each script, the newest last
	reign int     // number of failovers
	since time.Time
	held  map[string]*mortise.Hold
	last  int64 // the highest token of a hold
}

type state struct {
	at   time.Time
	keys driver.Value
}

func newMaster(w *crowd) *master {
	m := &master{crowd: w, r: rand.New(rand.NewPCG(w.seed, 7)), base: w.server.Link(), held: make(map[string]*mortise.Hold)}
	for kind := range locktest.Kinds {
		m.all = append(m.all, kind)
	}
	m.keep()
	return m
}

// keys returns all keys with their types, TTLs and contents, and restore makes what there is of such a list.
var (
	keys = driver.NewScript("keys", `
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind, values = redis.call('type', key).ok, {}
  if kind == 'hash' then values = redis.call('hgetall', key)
  elseif kind == 'zset' then values = redis.call('zrange', key, 0, -1, 'withscores')
  elseif kind == 'list' then values = redis.call('lrange', key, 0, -1)
  elseif kind == 'string' then values = {redis.call('get', key)} end
  all[#all + 1] = {key, kind, redis.call('pttl', key), values}
end
return all`)
	restore = driver.NewScript("restore", `
redis.call('del', KEYS[1])
if ARGV[1] == 'hash' then redis.call('hset', KEYS[1], unpack(ARGV, 3))
elseif ARGV[1] == 'zset' then for i = 3, #ARGV, 2 do redis.call('zadd', KEYS[1], ARGV[i + 1], ARGV[i]) end
elseif ARGV[1] == 'list' then redis.call('rpush', KEYS[1], unpack(ARGV, 3))
elseif ARGV[1] == 'string' then redis.call('set', KEYS[1], ARGV[3]) end
if ARGV[2] ~= '-1' then redis.call('pexpire', KEYS[1], ARGV[2]) end`)
)

// must runs a script of the harness.
func (m *master) must(call driver.Call) driver.Value {
	v, err := m.base.Eval(m.t.Context(), call)
	if err != nil {
		m.t.Error(err)
	}
	return v
}

// keep notes what there is now. The caller holds m.mu, except at first.
func (m *master) keep() {
	m.past = append(m.past, state{time.Now(), m.must(driver.Call{Script: keys, Keys: []string{"job"}})})
	for len(m.past) > 1 && time.Since(m.past[1].at) > replicaLag {
		m.past = m.past[1:]
	}
}

// failOver goes back to what the replica has.
func (m *master) failOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count("failovers")
	for _, hold := range m.held {
		if hold.Valid() {
			m.count("failovers under a lock")
			break
		}
	}
	has, behind := m.past[0], time.Now().Add(-time.Duration(m.r.Int64N(int64(replicaLag))))
	for _, s := range m.past {
		if !s.at.After(behind) {
			has = s
		}
	}
	now := m.must(driver.Call{Script: keys, Keys: []string{"job"}})
	for i := range now.Len() {
		m.must(driver.Call{Script: restore, Keys: []string{now.At(i).At(0).Str()}, Args: []string{"none", "-1"}})
	}
	for i := range has.keys.Len() {
		k := has.keys.At(i)
		left := k.At(2).Int()
		if left >= 0 {
			if left -= time.Since(has.at).Milliseconds(); left <= 0 {
				continue
			}
		}
		args := []string{k.At(1).Str(), fmt.Sprint(left)}
		for j := range k.At(3).Len() {
			args = append(args, k.At(3).At(j).Str())
		}
		m.must(driver.Call{Script: restore, Keys: []string{k.At(0).Str()}, Args: args})
	}
	m.reign, m.since, m.past = m.reign+1, time.Now(), nil
	m.keep()
}

// server is the driver of one client.
type server struct {
	driver.Driver
	m *master
}

var errMasterDied = &driver.Error{Class: driver.Unknown, Err: errors.New("the master died")}

// travel is the way of a request, or of its reply, to or from the master of that reign.
func (s server) travel(ctx context.Context, reign int) error {
	s.m.mu.Lock()
	d := time.Duration(s.m.r.Int64N(int64(8 * time.Millisecond)))
	s.m.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return driver.ContextError(ctx, driver.Unknown)
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.reign != reign {
		return errMasterDied
	}
	return nil
}

func (s server) reign() int {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.reign
}

// run runs a script at the master of that reign.
func (s server) run(ctx context.Context, reign int, call driver.Call) (driver.Value, error) {
	if err := s.travel(ctx, reign); err != nil {
		return driver.Value{}, err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	v, err := s.Driver.Eval(context.WithoutCancel(ctx), call)
	if !strings.HasPrefix(call.Script.Name(), "client_") { // records decide nothing here
		s.m.keep()
	}
	return v, err
}

func (s server) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	reign := s.reign()
	v, err := s.run(ctx, reign, call)
	if lost := s.travel(ctx, reign); lost != nil {
		return driver.Value{}, lost
	}
	return v, err
}

func (s server) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = s.Eval(ctx, call)
	}
	return results
}

// EvalWait implements driver.Waiter: the replica is back half a second after a failover, and what it has acknowledged it has.
func (s server) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	results := make([]driver.Acknowledged, len(calls))
	reign := s.reign()
	for i, call := range calls {
		results[i].Value, results[i].Err = s.run(ctx, reign, call)
	}
	s.m.mu.Lock()
	replicas := 0
	if time.Since(s.m.since) > time.Second/2 {
		replicas = 1
	}
	s.m.mu.Unlock()
	acks := 0
	if wait.Replicas > 0 {
		select {
		case <-time.After(min(wait.Timeout, 2*replicaLag)):
		case <-ctx.Done():
		}
		if wait.Timeout >= 2*replicaLag {
			acks = replicas
		}
	}
	lost := s.travel(ctx, reign)
	for i := range results {
		if results[i].Acks, results[i].Of = acks, replicas; lost != nil {
			results[i] = driver.Acknowledged{Result: driver.Result{Err: lost}}
		}
	}
	return results
}

// run lets clients contend for locks of all kinds while masters die.
func (m *master) run() {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(m.t.Context())
	for i := range 3 {
		c := mortise.New(server{m.server.Link(), m}, &mortise.Options{TTL: 9 * time.Second})
		for j := range 6 {
			r := rand.New(rand.NewPCG(m.seed, uint64(10*i+j)))
			all.Go(func() {
				for ctx.Err() == nil {
					m.once(c, r)
				}
			})
		}
		defer func() { m.check(c.Close()) }()
	}
	for range 4 {
		m.mu.Lock()
		d := time.Duration(m.r.Int64N(int64(3 * time.Second)))
		m.mu.Unlock()
		time.Sleep(time.Second + d)
		m.failOver()
	}
	cancel()
	all.Wait()
}

func (m *master) once(c *mortise.Client, r *rand.Rand) {
	o := mortise.LockOptions{Durability: mortise.Durability{Acks: mortise.AcksAll}, Wait: 3 * time.Second}
	switch r.IntN(4) {
	case 0:
		o.TTL = time.Second + time.Duration(r.Int64N(int64(4*time.Second)))
	case 1:
		o.MaxHold = 5 * time.Second
	}
	name, wait := m.all[r.IntN(len(m.all))], m.t.Context()
	if r.IntN(2) == 0 { // it gives up, also in the middle of an acquisition
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, time.Duration(r.Int64N(int64(4*time.Second))))
		defer cancel()
	}
	hold, ctx, err := locktest.Kinds[name].Open(c, name, o).Lock(wait)
	if err != nil {
		if !errors.Is(err, mortise.ErrLocked) && !errors.Is(err, mortise.ErrNotDurable) {
			m.check(err)
		}
		return
	}
	m.enter(name, hold)
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(r.Int64N(int64(2 * time.Second)))):
	}
	m.mu.Lock()
	if m.held[name] == hold {
		delete(m.held, name)
	}
	m.mu.Unlock()
	m.check(hold.Unlock())
}

func (m *master) enter(name string, hold *mortise.Hold) {
	m.count("acquired")
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.held[name]; other != nil && other.Valid() && hold.Valid() {
		m.t.Errorf("%s is held twice: by %s until %v from now, and by %s until %v from now", name,
			other.Owner(), time.Until(other.Until()), hold.Owner(), time.Until(hold.Until()))
	}
	m.held[name] = hold
	if token := hold.Token(); token != 0 && hold.Valid() {
		if token <= m.last {
			m.t.Errorf("%s: the token %d after %d", name, token, m.last)
		}
		m.last = max(m.last, token)
	}
}
