package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	classic = hub.Kind{Classic: true}
	sharded = hub.Kind{Sharded: true}
	both    = hub.Kind{Classic: true, Sharded: true}

	errRefused = &driver.Error{Class: driver.Denied, Err: errors.New("no right to listen")}
	errClosing = errors.New("the connection was gone already")
)

// recorder is a driver whose subscriber records the calls it gets, in order. The test plays
// the part of Redis, through sink.
type recorder struct {
	driver.Driver
	sink driver.Sink

	mu  sync.Mutex // guards what follows
	log []string
}

func (r *recorder) Subscriber(sink driver.Sink) driver.Subscriber {
	r.sink = sink
	return r
}

func (r *recorder) note(sign, channel string, sharded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sharded {
		channel += " sharded"
	}
	r.log = append(r.log, sign+channel)
}

func (r *recorder) Subscribe(channel string, sharded bool)   { r.note("+", channel, sharded) }
func (r *recorder) Unsubscribe(channel string, sharded bool) { r.note("-", channel, sharded) }

func (r *recorder) Close() error {
	r.note("closed", "", false)
	return errClosing
}

// asked returns the calls that the subscriber got since the last call of asked.
func (r *recorder) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	if got := r.asked(); !slices.Equal(got, want) {
		t.Errorf("the subscriber was asked for %q, want %q", got, want)
	}
}

func open() (*hub.Hub, *recorder) {
	r := &recorder{}
	return hub.New(r, "00", nil, nil), r
}

// hinted takes a hint, if there is one.
func hinted(l *hub.Listener) bool {
	select {
	case <-l.Hints():
		return true
	default:
		return false
	}
}

func wantHints(t *testing.T, when string, want bool, listeners ...*hub.Listener) {
	t.Helper()
	for i, l := range listeners {
		if hinted(l) != want {
			t.Errorf("%s: listener %d has a hint: %v, want %v", when, i, !want, want)
		}
		if hinted(l) {
			t.Errorf("%s: listener %d has more than one hint", when, i)
		}
	}
}

func TestOneSubscriptionPerChannel(t *testing.T) {
	h, r := open()
	r.want(t)
	a1, a2, b := h.Listen("a", classic), h.Listen("a", classic), h.Listen("b", classic)
	r.want(t, "+a", "+b")
	a1.Close()
	a3 := h.Listen("a", classic)
	a2.Close()
	r.want(t)
	a3.Close()
	r.want(t, "-a")
	again := h.Listen("a", classic)
	r.want(t, "+a")
	again.Close()
	b.Close()
	r.want(t, "-a", "-b")
}

func TestKinds(t *testing.T) {
	for _, test := range []struct {
		kind hub.Kind
		on   []string
		off  []string
	}{
		{classic, []string{"+a"}, []string{"-a"}},
		{sharded, []string{"+a sharded"}, []string{"-a sharded"}},
		{both, []string{"+a", "+a sharded"}, []string{"-a", "-a sharded"}},
	} {
		h, r := open()
		l1, l2 := h.Listen("a", test.kind), h.Listen("a", test.kind)
		r.want(t, test.on...)
		r.sink.Subscribed("a")
		wantHints(t, "after the first confirmation", true, l1, l2)
		r.sink.Subscribed("a") // of the other kind, or once more
		wantHints(t, "after the second confirmation", true, l1, l2)
		l1.Close()
		r.want(t)
		l2.Close()
		r.want(t, test.off...)
	}
}

// Messages before the confirmation may be missed, so that is the first hint. Any later message
// may be the one that counts.
func TestHints(t *testing.T) {
	h, r := open()
	l1, l2, other := h.Listen("a", classic), h.Listen("a", classic), h.Listen("b", classic)
	wantHints(t, "before the confirmation", false, l1, l2, other)
	r.sink.Subscribed("a")
	wantHints(t, "after the confirmation", true, l1, l2)
	late := h.Listen("a", classic)
	wantHints(t, "joining a confirmed channel", true, late)
	wantHints(t, "when another joins", false, l1, l2)
	r.sink.Message("a", "0")
	wantHints(t, "after a message", true, l1, l2, late)
	r.sink.Message("a", "whatever else")
	wantHints(t, "after a message of another form", true, l1, l2, late)
	r.sink.Subscribed("a") // the connection was replaced
	wantHints(t, "after another confirmation", true, l1, l2, late)
	for range 100 {
		r.sink.Message("a", "0")
		r.sink.Subscribed("a")
	}
	wantHints(t, "after two hundred hints", true, l1, l2, late)
	wantHints(t, "elsewhere", false, other)
}

// Redis may still send on a channel that was just left, or on one that was never wanted.
func TestNewsForNobody(t *testing.T) {
	h, r := open()
	gone, stays := h.Listen("a", classic), h.Listen("b", classic)
	gone.Close()
	for _, channel := range []string{"a", "never heard of"} {
		r.sink.Message(channel, "0")
		r.sink.Subscribed(channel)
		r.sink.Refused(channel, errRefused)
	}
	wantHints(t, "without news", false, gone, stays)
	if err := errors.Join(gone.Refused(), stays.Refused()); err != nil {
		t.Errorf("without news: refused: %v", err)
	}
}

// The channel was left, and is wanted again: what was known about it is void.
func TestAConfirmationEndsWithTheSubscription(t *testing.T) {
	h, r := open()
	first := h.Listen("a", classic)
	r.sink.Subscribed("a")
	first.Close()
	l := h.Listen("a", classic)
	wantHints(t, "before the new confirmation", false, l)
	r.sink.Subscribed("a")
	wantHints(t, "after it", true, l)
}

func TestRefused(t *testing.T) {
	h, r := open()
	l1, l2, other := h.Listen("a", classic), h.Listen("a", classic), h.Listen("b", classic)
	r.sink.Subscribed("a")
	wantHints(t, "after the confirmation", true, l1, l2)
	r.sink.Refused("a", errRefused) // a right was withdrawn
	wantHints(t, "after the refusal", true, l1, l2)
	for i, l := range []*hub.Listener{l1, l2} {
		if err := l.Refused(); !errors.Is(err, errRefused) || l.Confirmed() {
			t.Errorf("listener %d: refused: %v, want %v; confirmed: %v", i, err, errRefused, l.Confirmed())
		}
	}
	if err := other.Refused(); err != nil {
		t.Errorf("another channel: refused: %v", err)
	}
	r.want(t, "+a", "+b") // and not again

	r.sink.Subscribed("a")
	wantHints(t, "after the confirmation", true, l1, l2)
	if err := l1.Refused(); err != nil || !l1.Confirmed() {
		t.Errorf("after the confirmation: refused: %v; confirmed: %v", err, l1.Confirmed())
	}

	r.sink.Refused("a", errRefused)
	for _, l := range []*hub.Listener{l1, l2} {
		l.Close()
	}
	anew := h.Listen("a", classic)
	r.want(t, "-a", "+a")
	if err := anew.Refused(); err != nil {
		t.Errorf("wanted anew: refused: %v", err)
	}
	wantHints(t, "wanted anew", false, anew)
}

// The right may be back: a new listener makes the hub ask Redis again, even while the refused
// listeners have not left. Redis is asked once for each refusal.
func TestARefusalIsOfThoseWhoListened(t *testing.T) {
	h, r := open()
	old := h.Listen("a", both)
	r.sink.Refused("a", errRefused)
	r.want(t, "+a", "+a sharded")
	late, later := h.Listen("a", both), h.Listen("a", both)
	r.want(t, "+a", "+a sharded")
	wantHints(t, "before the second answer", false, late, later)
	if err := errors.Join(late.Refused(), later.Refused()); err != nil || late.Confirmed() {
		t.Errorf("before the second answer: refused: %v; confirmed: %v", err, late.Confirmed())
	}
	if err := old.Refused(); !errors.Is(err, errRefused) {
		t.Errorf("the first one was refused: %v, want %v", err, errRefused)
	}
	r.sink.Subscribed("a")
	wantHints(t, "after it", true, old, late, later)
	if err := old.Refused(); err != nil {
		t.Errorf("after it: refused: %v", err)
	}
	r.want(t)
}

func TestClose(t *testing.T) {
	h, r := open()
	l1, l2 := h.Listen("a", classic), h.Listen("a", classic)
	if err := h.Close(); !errors.Is(err, errClosing) {
		t.Errorf("Close: %v, want the subscriber's %v", err, errClosing)
	}
	r.want(t, "+a", "closed")
	late := h.Listen("b", both)
	for _, l := range []*hub.Listener{l1, l2, late} {
		wantHints(t, "after Close", false, l)
		if err := l.Refused(); err != nil {
			t.Errorf("after Close: refused: %v", err)
		}
		l.Close()
	}
	r.want(t)
}

// In whatever order listeners come and go, the subscriber learns of the changes in that order: a
// channel with a listener is never left unsubscribed.
func TestOrderUnderConcurrency(t *testing.T) {
	const users, rounds = 8, 300
	h, r := open()
	stop := make(chan struct{})
	var redis, all sync.WaitGroup
	redis.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.sink.Subscribed("a")
				r.sink.Message("b", "0")
			}
		}
	})
	for u := range users {
		all.Go(func() {
			for i := range rounds {
				l := h.Listen([]string{"a", "b"}[(u+i)%2], both)
				if i%3 == 0 {
					<-l.Hints()
				}
				_ = l.Refused()
				l.Close()
			}
		})
	}
	all.Wait()
	close(stop)
	redis.Wait()
	state := map[string]string{}
	for i, entry := range r.asked() {
		sign, channel := entry[:1], entry[1:]
		if before := state[channel]; before == sign || (before == "" && sign == "-") {
			t.Fatalf("request %d is %s after %q", i, entry, before)
		}
		state[channel] = sign
	}
	if len(state) != 4 {
		t.Errorf("the channels asked for are %v, want two of each kind", state)
	}
	for channel, sign := range state {
		if sign != "-" {
			t.Errorf("%s is still subscribed, and nobody listens", channel)
		}
	}
}

func TestManyListeners(t *testing.T) {
	const channels, each = 1000, 10
	h, r := open()
	var listeners []*hub.Listener
	for range each {
		for c := range channels {
			listeners = append(listeners, h.Listen(fmt.Sprint(c), classic))
		}
	}
	if n := len(r.asked()); n != channels {
		t.Errorf("%d subscriptions for %d channels", n, channels)
	}
	r.sink.Message("7", "0")
	for i, l := range listeners {
		if got, want := hinted(l), i%channels == 7; got != want {
			t.Errorf("listener %d has a hint: %v, want %v", i, got, want)
		}
		l.Close()
	}
	if n := len(r.asked()); n != channels {
		t.Errorf("%d subscriptions ended, want %d", n, channels)
	}
}

func TestEchoIsNoHint(t *testing.T) {
	h, r := open()
	heard := 0
	plain, hearer := h.Listen("c", classic), h.ListenFor("c", classic, func(string) bool { heard++; return true }, nil)
	r.sink.Message("c", "00")
	if hinted(plain) || hinted(hearer) || heard > 0 {
		t.Error("a message for Redisson's threads alone is taken for a hint")
	}
	r.sink.Message("c", "0")
	if !hinted(plain) || !hinted(hearer) {
		t.Error("a message after it is not heard")
	}
	plain.Close()
	hearer.Close()
}

// A server that has no subscriptions is silent to listeners: they wait on, without a hint, and it is asked again for the next one.
func TestMute(t *testing.T) {
	r := &recorder{}
	var told []error
	h := hub.New(r, "00", nil, func(err error) { told = append(told, err) })
	l := h.Listen("a", classic)
	for i, err := range []error{errors.New("lost"), &driver.Error{Class: driver.Other, Err: errors.New("ERR unknown command 'subscribe'")}} {
		r.sink.Refused("a", err)
		wantHints(t, "after the refusal", false, l)
		if l.Refused() != nil || l.Confirmed() || len(told) != i+1 || !errors.Is(told[i], err) {
			t.Errorf("refused: %v; confirmed: %v; told: %v, want nothing, false, and %v", l.Refused(), l.Confirmed(), told, err)
		}
	}
	r.want(t, "+a")
	late := h.Listen("a", classic)
	r.want(t, "+a")
	r.sink.Subscribed("a")
	wantHints(t, "after it", true, l, late)
}
