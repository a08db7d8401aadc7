//go:build !race

package waiting

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// This file has all that the model of waiting knows about the inside of the package.

// newModelClient returns a client whose background work is started by start.
func newModelClient(d driver.Driver, start func(f func())) *lease.Client {
	c := newClient(d)
	c.Conn().Learn(false, script.Classic)
	c.Config().Start = start
	return c
}

// modelWaiter is a goroutine that asks for the lock and waits as [Acquire] does, except
// that its test wakes it.
type modelWaiter struct {
	lock    *lease.Lock
	ctx     context.Context
	cancel  context.CancelFunc
	request *request
	contest *contest // nil unless it waits
	over    bool     // the call has returned
	hold    *lease.Hold
	err     error
	wakes   time.Time // when its sleep is over; zero if only a signal ends it
}

type modelKey struct{}

// modelCaller returns the waiter that makes a call with ctx, or nil for any other call.
func modelCaller(ctx context.Context) *modelWaiter {
	m, _ := ctx.Value(modelKey{}).(*modelWaiter)
	return m
}

// newModelWaiter returns a goroutine of c that has not asked yet. If fixed is set, it wants a
// lease that is not renewed.
func newModelWaiter(c *lease.Client, fixed bool) *modelWaiter {
	k := plainLock(c, modelName)
	if fixed {
		k.SetOptions(terms.Options{TTL: time.Hour, MaxHold: time.Hour})
	}
	return &modelWaiter{lock: k}
}

// ask is the part of Lock.Acquire before the first sleep.
func (m *modelWaiter) ask() {
	*m = modelWaiter{lock: m.lock}
	m.ctx, m.cancel = context.WithCancel(context.WithValue(context.Background(), modelKey{}, m))
	if m.request, m.err = newRequest(m.ctx, m.lock); m.err != nil {
		m.over = true
		return
	}
	var s *contest
	if m.hold, s, m.err = m.request.enqueue(m.ctx); !errors.Is(m.err, lease.ErrNoHold) {
		m.end()
		return
	}
	m.contest = s
	m.step(Started)
}

// step is what the goroutine does after a sleep.
func (m *modelWaiter) step(why Cause) {
	s := m.contest
	d, err := time.Duration(0), outcome.ErrEnded
	if !s.Sleeper.over(m.ctx) {
		d, err = s.Step(m.ctx, why)
	}
	m.wakes = time.Time{}
	if errors.Is(err, lease.ErrNoHold) {
		if d != UntilWoken {
			m.wakes = time.Now().Add(modelSleep(d))
		}
		return
	}
	s.leave(&s.w)
	m.hold, m.err = s.hold, s.ended(m.ctx, err)
	m.end()
}

// end is the end of Lock.Acquire.
func (m *modelWaiter) end() {
	m.request.tidy(m.hold)
	m.request, m.contest, m.over = nil, nil, true
}

// modelSleep returns the longest sleep of those that vary as d does.
func modelSleep(d time.Duration) time.Duration {
	for _, p := range [...]time.Duration{outcome.Poll, deafPoll} {
		if p*9/10 <= d && d <= p*11/10 {
			return p * 11 / 10
		}
	}
	return d
}

// modelPoll is longer than any sleep of a waiter that is the first of its client.
const modelPoll = outcome.Poll*11/10 + 10*time.Millisecond

// modelRenewal is longer than the time between two renewals of a lease. It is so short that a
// lease lasts for two of them.
const modelRenewal = 11 * time.Second

// modelPause is longer than a pause between attempts that fail.
const modelPause = 210 * time.Millisecond

// causes returns what can end the sleep of the goroutine now.
func (m *modelWaiter) causes() (causes []Cause) {
	s := m.contest
	if len(s.Sleeper.Wake) > 0 || m.ctx.Err() != nil {
		causes = append(causes, Woken)
	}
	if len(s.Own) > 0 || len(s.All) > 0 {
		causes = append(causes, Notified)
	}
	if !m.wakes.IsZero() && !time.Now().Before(m.wakes) {
		causes = append(causes, Elapsed)
	}
	return causes
}

// signaled reports whether a signal is pending. If the wait ended as well, a select could choose
// either.
func (m *modelWaiter) signaled() bool { return m.contest != nil && len(m.contest.Sleeper.Wake) > 0 }

// awake takes the signal that ends the sleep, and does the next step.
func (m *modelWaiter) awake(why Cause) {
	s := m.contest
	switch why {
	case Woken:
		drain(s.Sleeper.Wake)
	case Notified:
		if len(s.Own) > 0 {
			drain(s.Own)
		} else {
			drain(s.All)
		}
	}
	m.step(why)
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// unlock releases the hold.
func (m *modelWaiter) unlock() error { return m.hold.Unlock() }

// modelRest returns what an unused client still has that others could wait for.
func modelRest(c *lease.Client) string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	rest := ""
	if n := len(QueuesOf(c).queues); n > 0 {
		rest += fmt.Sprintf(" %d queues", n)
	}
	if n := len(QueuesOf(c).asking); n > 0 {
		rest += fmt.Sprintf(" %d requests", n)
	}
	c.Leases(func(leases map[string]*lease.Lease) {
		if n := len(leases); n > 0 {
			rest += fmt.Sprintf(" %d leases", n)
		}
	})
	return rest
}

// modelDump writes the state of clients and waiters as text. Two states with the same text
// go on in the same way. It renames ids in the order in which they appear, and shows times
// by their distance from now.
type modelDump struct {
	out     []byte
	now     time.Time
	ids     map[string]int
	clients []string // ids of the clients
	seen    map[modelPointer]int
}

type modelPointer struct {
	at uintptr
	of reflect.Type
}

func newModelDump(clients ...*lease.Client) *modelDump {
	d := &modelDump{now: time.Now(), ids: make(map[string]int), seen: make(map[modelPointer]int)}
	for _, c := range clients {
		d.clients = append(d.clients, c.ID())
	}
	return d
}

var (
	modelPackages = []string{reflect.TypeFor[lease.Client]().PkgPath(), reflect.TypeFor[Queues]().PkgPath(), reflect.TypeFor[script.Standing]().PkgPath()}
	modelTime     = reflect.TypeFor[time.Time]()
	// modelShape has the types that do not change while a lock is in use, or whose state
	// follows from that of the server.
	modelShape = []reflect.Type{
		reflect.TypeFor[lease.Lock](), reflect.TypeFor[lease.Object](), reflect.TypeFor[lease.Owner](), reflect.TypeFor[lease.Hold](), reflect.TypeFor[lease.Config](),
	}
)

// modelIsShape reports whether the model leaves out values of that type.
func modelIsShape(t reflect.Type) bool {
	return slices.Contains(modelShape, t) || t.Name() == "replicas"
}

// value writes v.
func (d *modelDump) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		d.text(v.String())
	case reflect.Bool:
		d.out = strconv.AppendBool(d.out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.out = strconv.AppendInt(d.out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.out = strconv.AppendUint(d.out, v.Uint(), 10)
	case reflect.Chan:
		d.out = strconv.AppendInt(d.out, int64(v.Len()), 10)
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Struct:
		d.fields(v)
	case reflect.Map:
		d.entries(v)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			d.value(v.Index(i))
			d.out = append(d.out, ',')
		}
	case reflect.Interface, reflect.Func:
		d.out = strconv.AppendBool(d.out, v.IsNil())
	}
}

// pointer writes what v points to, or its number if that is written already.
func (d *modelDump) pointer(v reflect.Value) {
	t := v.Type().Elem()
	switch {
	case v.IsNil():
		d.out = append(d.out, '-')
		return
	case t == reflect.TypeFor[hub.Listener]():
		d.value(v.Elem().FieldByName("hint"))
		return
	case !slices.Contains(modelPackages[:2], t.PkgPath()) || modelIsShape(t):
		d.out = append(d.out, '+')
		return
	}
	p := modelPointer{v.Pointer(), t}
	n, known := d.seen[p]
	if !known {
		n = len(d.seen)
		d.seen[p] = n
	}
	d.out = strconv.AppendInt(append(d.out, '#'), int64(n), 10)
	if !known {
		d.value(v.Elem())
	}
}

func (d *modelDump) fields(v reflect.Value) {
	t := v.Type()
	switch {
	case t == modelTime:
		d.time(v)
		return
	case !slices.Contains(modelPackages, t.PkgPath()), modelIsShape(t):
		return
	}
	d.out = append(d.out, '{')
	for i := range v.NumField() {
		d.value(v.Field(i))
		d.out = append(d.out, ' ')
	}
	d.out = append(d.out, '}')
}

// time writes a time.Time, of which the bubble's clock makes the wall and monotonic parts.
func (d *modelDump) time(v reflect.Value) {
	now := reflect.ValueOf(d.now)
	if v.Field(0).Uint() == 0 && v.Field(1).Int() == 0 {
		d.out = append(d.out, '-')
		return
	}
	d.out = strconv.AppendInt(d.out, v.Field(1).Int()-now.Field(1).Int(), 10)
}

func (d *modelDump) entries(v reflect.Value) {
	if v.Len() > 1 { // in the order of their keys
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			d.value(k)
			d.value(v.MapIndex(k))
		}
		return
	}
	for it := v.MapRange(); it.Next(); {
		d.value(it.Key())
		d.value(it.Value())
	}
}

// text writes s with each id renamed.
func (d *modelDump) text(s string) {
	for s != "" {
		at, end, client := len(s), len(s), byte(0)
		for i, c := range d.clients {
			if j := strings.Index(s, c); j >= 0 && j < at {
				at, end, client = j, j+len(c), byte(i)
			}
		}
		d.out = append(d.out, s[:at]...)
		if at == len(s) {
			return
		}
		d.out = append(d.out, 'A'+client)
		id := end
		for end < len(s) && (s[end] == ':' || '0' <= s[end] && s[end] <= '9') {
			end++
		}
		if end > id {
			n, known := d.ids[s[at:end]]
			if !known {
				n = len(d.ids)
				d.ids[s[at:end]] = n
			}
			d.out = strconv.AppendInt(append(d.out, ':'), int64(n), 10)
		}
		s = s[end:]
	}
}
