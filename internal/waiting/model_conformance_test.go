package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/memredis"
)

// The model replies, publishes and stores the same as the scripts on the embedded server.
func TestModelServer(t *testing.T) {
	const sequences, operations = 30, 100
	for seed := range uint64(sequences) {
		synctest.Test(t, func(t *testing.T) {
			s := memredis.New()
			defer s.Close()
			p := newModelPair(t, s, seed)
			defer p.close()
			for range operations {
				p.operate()
				if got, want := p.observe(); got != want {
					t.Fatalf("seed %d: after\n%s\nthe model has\n%s\nand Redis has\n%s", seed, strings.Join(p.log, "\n"), got, want)
				}
			}
		})
	}
}

// modelPair is a modelServer and a real one, with the same clients.
type modelPair struct {
	t     *testing.T
	dice  *rand.Rand
	model *modelServer
	real  driver.Driver
	sides [2][]*modelEnd // of the model and of the real server
	ids   []string
	log   []string
}

// modelEnd is a client of one side.
type modelEnd struct {
	driver.Driver
	driver.Subscriber
	lock script.Lock
	mu   sync.Mutex // guards heard
	said []string
}

func (e *modelEnd) Message(channel, payload string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, channel+" "+payload)
}
func (e *modelEnd) Subscribed(string)     {}
func (e *modelEnd) Refused(string, error) {}

func newModelPair(t *testing.T, s *memredis.Server, seed uint64) *modelPair {
	p := &modelPair{t: t, dice: rand.New(rand.NewPCG(seed, 1)), model: new(modelServer), real: s.Driver()}
	for client := range 3 {
		for side := range p.sides {
			d := s.Driver()
			if side == 0 {
				d = p.model.connect()
			}
			e := &modelEnd{Driver: d}
			e.Subscriber = d.Subscriber(e)
			conn := script.NewConn(d)
			conn.Learn(false, script.Classic)
			e.lock = conn.Lock(modelName)
			p.sides[side] = append(p.sides[side], e)
		}
		id := fmt.Sprintf("0000000%d-0000-8000-8000-000000000000", client)
		p.ids = append(p.ids, id+":1", id+":2")
	}
	return p
}

func (p *modelPair) close() {
	for _, e := range p.sides[1] {
		if err := e.Subscriber.Close(); err != nil {
			p.t.Error(err)
		}
		if err := e.Driver.Close(); err != nil {
			p.t.Error(err)
		}
	}
	if err := p.real.Close(); err != nil {
		p.t.Error(err)
	}
}

// operate does a random thing on both sides.
func (p *modelPair) operate() {
	id, entry := p.ids[p.dice.IntN(len(p.ids))], script.Entry("")
	switch p.dice.IntN(3) {
	case 0:
		entry = script.ToGive(id)
	case 1:
		entry = script.ToGiveBriefly(id)
	}
	lease := time.Duration(1+p.dice.IntN(5)) * time.Second
	turns := script.Turns{Command: "publish", Row: p.dice.IntN(9), Shared: p.dice.IntN(3) == 0, Keep: p.dice.IntN(6) == 0}
	if p.dice.IntN(8) == 0 {
		turns.Command = ""
	}
	yields := entry != "" && p.dice.IntN(3) == 0
	count, client := 1+p.dice.IntN(3), p.dice.IntN(3)
	held := p.dice.IntN(3) > 0 && p.model.owner != ""
	switch n := p.dice.IntN(20); {
	case n < 9:
		p.both(fmt.Sprintf("%s acquires for %v as %q, yields: %v", id, lease, entry, yields), client, func(ctx context.Context, k *script.Lock) (any, error) {
			return k.Acquire(ctx, script.Attempt{ID: id, Lease: lease, Entry: entry, Yields: yields})
		})
	case n < 14:
		if held {
			id = p.model.owner
		}
		p.both(fmt.Sprintf("%s releases with %+v", id, turns), client, func(ctx context.Context, k *script.Lock) (any, error) {
			return k.Release(ctx, id, turns)
		})
	case n < 16:
		if held {
			id = p.model.owner
		}
		p.both(fmt.Sprintf("%s enters %d times for %v", id, count, lease), client, func(ctx context.Context, k *script.Lock) (any, error) {
			return k.Reentry(id, count, lease).Run(ctx, p.driver(k))
		})
		p.both(fmt.Sprintf("%s leaves", id), client, func(ctx context.Context, k *script.Lock) (any, error) { return k.Leave(ctx, id, count) })
	case n < 17:
		p.both("renewal of "+id, client, func(ctx context.Context, k *script.Lock) (any, error) {
			return script.Renew(ctx, p.driver(k), [][]script.Renewal{{k.Renewal(id, lease)}}), nil
		})
	case n < 19:
		p.subscribe(client)
	default:
		p.log = append(p.log, fmt.Sprint(lease, " pass"))
		time.Sleep(lease - time.Duration(p.dice.IntN(2))*time.Millisecond)
	}
}

// driver returns the driver that k uses.
func (p *modelPair) driver(k *script.Lock) driver.Driver {
	for _, side := range p.sides {
		for _, e := range side {
			if &e.lock == k {
				return e.Driver
			}
		}
	}
	return nil
}

// subscribe makes a client listen to one more channel, or to one fewer.
func (p *modelPair) subscribe(client int) {
	channels := [...]string{channelOfTurn(p.ids[2*client]), channelOfTurn(p.ids[2*client]), modelChannel, keyspace.Heeds(modelChannel)}
	channel := channels[p.dice.IntN(len(channels))]
	model := p.model.clients[client]
	is := slices.Contains(model.listens, channel)
	p.log = append(p.log, fmt.Sprintf("client %d listens to %s: %v", client, channel, !is))
	for _, side := range p.sides {
		if is {
			side[client].Unsubscribe(channel, false)
		} else {
			side[client].Subscribe(channel, false)
		}
	}
	if !is {
		model.confirm()
	}
	synctest.Wait()
}

// both does the same on both sides and compares the replies.
func (p *modelPair) both(what string, client int, do func(ctx context.Context, k *script.Lock) (any, error)) {
	p.t.Helper()
	p.log = append(p.log, what)
	got, gotErr := do(p.t.Context(), &p.sides[0][client].lock)
	want, wantErr := do(p.t.Context(), &p.sides[1][client].lock)
	synctest.Wait() // messages arrive
	if g, w := fmt.Sprint(got, gotErr), fmt.Sprint(want, wantErr); g != w {
		p.t.Fatalf("after\n%s\nthe model replies\n%s\nand Redis replies\n%s", strings.Join(p.log, "\n"), g, w)
	}
}

// observe returns what each side stores and what its clients have heard.
func (p *modelPair) observe() (model, real string) {
	v, err := p.real.Eval(p.t.Context(), driver.Call{Script: modelState, Keys: []string{modelName, keyspace.Turns(modelName)}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.model.expire()
	var turns, lock []driver.Value
	for _, t := range p.model.turns {
		turns = append(turns, driver.StringValue(t.entry), driver.StringValue(fmt.Sprint(t.score)))
	}
	ttl, kept := int64(-2), int64(-2)
	if p.model.owner != "" {
		lock = []driver.Value{driver.StringValue(p.model.owner), driver.StringValue(p.model.count)}
		ttl = time.Until(p.model.expires).Milliseconds()
	}
	if len(turns) > 0 {
		kept = time.Until(p.model.kept).Milliseconds()
	}
	state := driver.ArrayValue([]driver.Value{
		driver.ArrayValue(lock), driver.IntValue(ttl), driver.ArrayValue(turns), driver.IntValue(kept),
	})
	model, real = state.String(), v.String()
	for i, d := range p.model.clients {
		for _, m := range d.inbox {
			p.sides[0][i].Message(m.channel, m.payload)
		}
		d.inbox = nil
		model += fmt.Sprintf("\nclient %d heard %q", i, p.sides[0][i].said)
		real += fmt.Sprintf("\nclient %d heard %q", i, p.sides[1][i].said)
		p.sides[0][i].said, p.sides[1][i].said = nil, nil
	}
	return model, real
}

// modelState reads what a modelServer has.
var modelState = driver.NewScript("state", `
local turns = redis.call('zrange', KEYS[2], 0, -1, 'withscores')
for i = 2, #turns, 2 do turns[i] = string.format('%.0f', tonumber(turns[i])) end
return {redis.call('hgetall', KEYS[1]), redis.call('pttl', KEYS[1]), turns, redis.call('pttl', KEYS[2])}`)
