package waiting

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// modelName is the only lock of a modelServer.
const modelName = "job"

var (
	modelChannel      = keyspace.LockChannel(modelName)
	modelTurnChannels = keyspace.TurnChannel(modelName, "")
)

// modelServer does what Redis does when it runs the scripts of one plain lock. Nothing in it
// is concurrent or random. TestModelServer compares it with the scripts themselves.
type modelServer struct {
	mu      sync.Mutex // the watchdogs renew concurrently
	owner   string     // empty if the lock is free
	count   string
	expires time.Time // of the lock
	turns   []modelTurn
	kept    time.Time // when the turns expire
	entered int64     // added to the scores, so that no two entries of an instant are equal; 0 if they may be
	clients []*modelDriver
}

// modelTurn is a member of the sorted set of turns.
type modelTurn struct {
	entry string
	score int64
}

// modelMessage is a message on its way to a client.
type modelMessage struct{ channel, payload string }

// run runs a script.
func (s *modelServer) run(call driver.Call) driver.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	args := call.Args
	switch name := call.Script.Name(); name {
	case "lock_acquire":
		return s.acquire(args)
	case "lock_reenter":
		return s.reenter(args)
	case "lock_leave":
		if s.owner != args[0] {
			return driver.CodeValue(0)
		}
		s.count = args[1]
		return driver.CodeValue(1)
	case "lock_release":
		return driver.IntValue(s.release(args))
	case "lock_renew":
		return s.renew(args)
	default:
		panic("the model has no script " + name)
	}
}

// expire removes what has expired.
func (s *modelServer) expire() {
	now := time.Now()
	if s.owner != "" && !now.Before(s.expires) {
		s.owner = ""
	}
	if len(s.turns) > 0 && !now.Before(s.kept) {
		s.turns = nil
	}
}

// prolong sets the expiry of the lock to the lease in ms, unless it is later already.
func (s *modelServer) prolong(ms string) {
	n, err := strconv.Atoi(ms)
	if err != nil {
		panic(err)
	}
	if at := time.Now().Add(time.Duration(n) * time.Millisecond); at.After(s.expires) {
		s.expires = at
	}
}

// seize makes owner the holder of the free lock.
func (s *modelServer) seize(owner, ms string) {
	s.owner, s.count, s.expires = owner, "1", time.Time{}
	s.prolong(ms)
}

func (s *modelServer) acquire(args []string) driver.Value {
	owner, entry := args[0], append(args, "")[2]
	yields := s.owner == "" && len(args) > 3
	if left := s.leftFor(); yields && left <= 0 {
		s.remove(modelMark)
	} else if yields {
		before, isNew := s.stand(entry)
		return driver.ArrayValue([]driver.Value{
			driver.IntValue(0), driver.IntValue(int64(math.Ceil(float64(left) / float64(time.Millisecond)))), driver.StringValue(""), driver.StringValue(modelMark),
			driver.IntValue(before), driver.IntValue(isNew),
		})
	}
	switch s.owner {
	case "":
		s.seize(owner, args[1])
		if entry != "" && !s.remove(entry) {
			return driver.IntValue(12)
		}
		return driver.IntValue(11)
	case owner:
		if s.count == "0" { // granted for a moment
			s.seize(owner, args[1])
		}
		s.prolong(args[1])
		if entry != "" {
			return driver.IntValue(12)
		}
		return driver.IntValue(11)
	}
	reply := []driver.Value{
		driver.IntValue(0), driver.IntValue(time.Until(s.expires).Milliseconds()), driver.StringValue(s.owner), driver.StringValue(s.count),
	}
	if entry != "" {
		before, isNew := s.stand(entry)
		reply = append(reply, driver.IntValue(before), driver.IntValue(isNew))
	}
	return driver.ArrayValue(reply)
}

// modelMark is the entry of Redisson's threads in the turns, and modelFar what is added to its score.
const (
	modelMark = "~"
	modelFar  = 4_000_000_000_000_000
)

// mark keeps those from the lock who may not know that it was left to Redisson's threads.
func (s *modelServer) mark(p *modelPass, became string) {
	if became != "left" || !p.turns {
		return
	}
	s.remove(modelMark)
	s.enter(modelTurn{modelMark, modelFar + time.Now().Add(chance).UnixMicro()})
	s.kept = time.Now().Add(10 * time.Second)
}

// leftFor returns for how long Redisson's threads have the first chance.
func (s *modelServer) leftFor() time.Duration {
	if n := len(s.turns) - 1; n >= 0 && s.turns[n].entry == modelMark {
		return time.Duration(s.turns[n].score-modelFar-time.Now().UnixMicro()) * time.Microsecond
	}
	return 0
}

// stand enters a client into the turns.
func (s *modelServer) stand(entry string) (before, isNew int64) {
	is := func(t modelTurn) bool { return t.entry == entry }
	if !slices.ContainsFunc(s.turns, is) {
		isNew = 1
		score := time.Now().UnixMicro()
		if s.entered > 0 {
			s.entered++
			score += s.entered
		}
		s.enter(modelTurn{entry, score})
	}
	s.kept = time.Now().Add(10 * time.Second)
	return int64(slices.IndexFunc(s.turns, is)), isNew
}

func (s *modelServer) enter(t modelTurn) {
	s.turns = append(s.turns, t)
	slices.SortFunc(s.turns, func(a, b modelTurn) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.entry, b.entry))
	})
}

// remove removes an entry from the turns, and reports whether it was there.
func (s *modelServer) remove(entry string) bool {
	n := len(s.turns)
	s.turns = slices.DeleteFunc(s.turns, func(t modelTurn) bool { return t.entry == entry })
	return len(s.turns) < n
}

func (s *modelServer) reenter(args []string) driver.Value {
	if s.owner != args[0] {
		return driver.CodeValue(0)
	}
	s.prolong(args[2])
	s.count = args[1]
	return driver.CodeValue(1)
}

func (s *modelServer) renew(args []string) driver.Value {
	state := int64(script.Gone)
	switch s.owner {
	case args[0]:
		state = script.Renewed
		s.prolong(args[1])
	case "":
	default:
		state = script.Taken
	}
	return driver.ArrayValue([]driver.Value{driver.IntValue(state), driver.IntValue(time.Now().UnixMilli())})
}

// modelPass is how a release passes the lock on.
type modelPass struct {
	row    int
	with   string // 'shared' or 'keep', if Redisson's threads are known to take part
	known  string // what the next client is to know of that
	turns  bool   // clients take turns
	probed bool   // theirs is known
	theirs bool   // Redisson's threads listen
	r, g   int    // how many clients of Redisson's do, and how many of mortise's
}

// probe reports whether Redisson's threads listen to the common channel.
func (s *modelServer) probe(p *modelPass) bool {
	if p.turns && !p.probed {
		p.probed = true
		p.g = s.listeners(keyspace.Heeds(modelChannel))
		p.r = s.listeners(modelChannel) - p.g
		p.theirs = p.r > 0
	}
	return p.theirs
}

// times is how often in a row the lock is left to Redisson's threads.
func (p *modelPass) times() int {
	return min(int(math.Floor(float64(p.r)/float64(max(p.g, 1))+0.5)), 8)
}

func (s *modelServer) release(args []string) int64 {
	row, err := strconv.Atoi(args[4])
	if err != nil {
		panic(err)
	}
	with, _, _ := strings.Cut(args[5], " ")
	p := &modelPass{turns: args[1] != "", row: row, with: with, known: strings.TrimPrefix(args[5], with)}
	if s.owner != args[0] {
		if p.turns {
			s.remove(args[0])
			s.remove("?" + args[0])
		}
		return 20
	}
	s.owner = ""
	announced, became := s.pass(p)
	if p.with == "shared" && announced && became == "" && s.probe(p) {
		became = "left"
	}
	s.mark(p, became)
	message := p.announcement(became)
	heard := announced && s.publish(modelChannel, message) > 0
	switch {
	case became == "left" || heard && message == "0" && s.probe(p):
		return 22
	case became == "given":
		return 23
	}
	return 21
}

// announcement returns the message by which a release is announced.
func (p *modelPass) announcement(became string) string {
	switch times := p.times(); {
	case became == "given":
		return "00"
	case became == "left" && times > 1:
		return "000" + strings.Repeat("0", times)
	case became == "left":
		return "000"
	case p.with != "":
		return "0000"
	}
	return "0"
}

// pass grants the free lock to the next turn.
func (s *modelServer) pass(p *modelPass) (announced bool, became string) {
	for range 100 {
		if !p.turns || len(s.turns) == 0 {
			return true, ""
		}
		if s.turns[0].entry == modelMark {
			if s.turns = s.turns[1:]; len(s.turns) == 0 {
				return true, ""
			}
		}
		if s.listeners(channelOfTurn(s.turns[0].entry)) == 0 {
			s.turns = s.turns[1:]
			continue
		}
		if s.probe(p) {
			s.remove(modelMark)
			p.g = max(p.g, min(len(s.turns), 100))
		}
		if p.theirs && p.with != "keep" && (p.row+1)*p.r >= p.g {
			word := "~"
			if times := p.times(); times > 1 {
				word = fmt.Sprint(word, times)
			}
			s.publish(channelOfTurn(s.turns[0].entry), word+p.known)
			return true, "left"
		}
		first := s.turns[0]
		s.turns = s.turns[1:]
		id, asks := strings.CutPrefix(first.entry, "?")
		lease := script.GivenLease
		if asks {
			lease = time.Second
		}
		s.seize(id, strconv.FormatInt(lease.Milliseconds(), 10))
		if asks {
			s.count = "0"
		}
		known := ""
		if p.theirs {
			known = cmp.Or(p.known, " 0 0")
		}
		s.publish(channelOfTurn(first.entry), fmt.Sprint(id, " ", p.row+1)+known)
		return p.theirs, "given"
	}
	return true, ""
}

// channelOfTurn returns the channel of the client with that entry.
func channelOfTurn(entry string) string {
	client, _, _ := strings.Cut(strings.TrimPrefix(entry, "?"), ":")
	return modelTurnChannels + client
}

func (s *modelServer) listeners(channel string) (n int) {
	for _, d := range s.clients {
		if slices.Contains(d.listens, channel) {
			n++
		}
	}
	return n
}

// publish puts a message on its way to all that listen, and returns their number.
func (s *modelServer) publish(channel, payload string) (n int) {
	for _, d := range s.clients {
		if slices.Contains(d.listens, channel) {
			d.inbox = append(d.inbox, modelMessage{channel, payload})
			n++
		}
	}
	return n
}

// modelDriver is the driver of one client of a modelServer. It is its subscriber, too.
type modelDriver struct {
	server  *modelServer
	gate    func(ctx context.Context, call driver.Call) (driver.Value, error) // runs a call in time; nil: at once
	sink    driver.Sink
	asked   []string // channels whose subscription is on its way
	listens []string // channels to which the client is subscribed
	inbox   []modelMessage
}

// connect returns the driver of one more client.
func (s *modelServer) connect() *modelDriver {
	d := &modelDriver{server: s}
	s.clients = append(s.clients, d)
	return d
}

func (d *modelDriver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if d.gate == nil {
		return d.server.run(call), nil
	}
	return d.gate(ctx, call)
}

func (d *modelDriver) Batch(_ context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value = d.server.run(call)
	}
	return results
}

func (d *modelDriver) Shard(string) string { return "" }

func (d *modelDriver) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{}, nil
}

func (d *modelDriver) Subscriber(sink driver.Sink) driver.Subscriber {
	d.sink = sink
	return modelSubscriber{d}
}

func (d *modelDriver) Close() error { return nil }

// confirm makes Redis confirm the first subscription that is on its way.
func (d *modelDriver) confirm() {
	channel := d.asked[0]
	d.asked = d.asked[1:]
	d.server.mu.Lock()
	if !slices.Contains(d.listens, channel) {
		d.listens = append(d.listens, channel)
	}
	d.server.mu.Unlock()
	d.sink.Subscribed(channel)
}

// deliver hands the first message to the client.
func (d *modelDriver) deliver() {
	m := d.next()
	d.sink.Message(m.channel, m.payload)
}

// next takes the first message.
func (d *modelDriver) next() modelMessage {
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	m := d.inbox[0]
	d.inbox = d.inbox[1:]
	return m
}

// modelSubscriber is a modelDriver as the hub sees it.
type modelSubscriber struct{ *modelDriver }

func (d modelSubscriber) Subscribe(channel string, _ bool) { d.asked = append(d.asked, channel) }

func (d modelSubscriber) Unsubscribe(channel string, _ bool) {
	is := func(c string) bool { return c == channel }
	d.asked = slices.DeleteFunc(d.asked, is)
	d.server.mu.Lock()
	d.listens = slices.DeleteFunc(d.listens, is)
	d.server.mu.Unlock()
}

func (d modelSubscriber) Close() error { return nil }
