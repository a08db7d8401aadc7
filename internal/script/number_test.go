package script_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var (
	permitNews = keyspace.SemaphoreChannel(job)
	latchNews  = keyspace.LatchChannel(job)
	claims     = keyspace.Claims(job)
)

// op is the lane of the tested operation.
const op = "0b5f3d1c-7c0e-8d2e-9a57-1f0e6a0c9b11:7"

var trial = script.Operation{Lane: op, Serial: 41}

// first is the first operation of a lane.
func first(lane string) script.Operation { return script.Operation{Lane: lane, Serial: 1} }

// counts puts a number under the key.
func counts(n string) setup {
	return func(t *testing.T, w *world) { w.must(t, "SET", job, n) }
}

// limited puts a number under the key that has a TTL.
func limited(n string) setup {
	return func(t *testing.T, w *world) { w.must(t, "SET", job, n, "PX", "600000") }
}

// then applies one setup after the other.
func (s setup) then(next setup) setup {
	return func(t *testing.T, w *world) {
		s(t, w)
		next(t, w)
	}
}

// claiming has other waiters claim permits, in this order.
func claiming(wanted ...int) setup {
	return func(t *testing.T, w *world) {
		for i, n := range wanted {
			claimFor(t, w, fmt.Sprint("waiter", i), n)
		}
	}
}

// claimFor claims more permits than there are, and n at the end.
func claimFor(t *testing.T, w *world, waiter string, n int) {
	t.Helper()
	if ok, _, err := script.SemaphoreAcquire(t.Context(), w, job, first(waiter), n, waiter, ""); ok || err != nil {
		t.Fatalf("%s should wait for %d permits: %v, %v, want false", waiter, n, ok, err)
	}
}

// claimed shows which waiter claims how many permits, in order.
func (w *world) claimed(t *testing.T) string {
	t.Helper()
	v := w.must(t, "HGETALL", claims)
	all := make(map[string]string, v.Len()/2)
	for i := 0; i < v.Len(); i += 2 {
		var order, permits, until int64
		if _, err := fmt.Sscan(v.At(i+1).Str(), &order, &permits, &until); err != nil {
			t.Fatalf("the claim of %s is %q", v.At(i).Str(), v.At(i+1).Str())
		}
		all[fmt.Sprint(order)] = fmt.Sprintf("%s:%d", v.At(i).Str(), permits)
	}
	if v.Len() > 0 && (w.ttl(t, claims) <= 0 || w.ttl(t, claims) > 3*time.Second) {
		t.Errorf("the TTL of the claims is %v, want 3s", w.ttl(t, claims))
	}
	var b strings.Builder
	for order := 1; len(all) > 0; order++ {
		if claim, ok := all[fmt.Sprint(order)]; ok {
			fmt.Fprint(&b, " ", claim)
			delete(all, fmt.Sprint(order))
		}
	}
	return strings.TrimSpace(b.String())
}

// said is an outcome as text: the result of the script's function.
func said(err error, results ...any) string {
	switch {
	case err == nil:
		return strings.TrimSpace(fmt.Sprintln(results...))
	case errors.Is(err, script.ErrNumber):
		return "no number"
	default:
		return classOf(err)
	}
}

// saidLack is said for an acquisition.
func saidLack(err error, ok bool, why script.PermitRefusal) string {
	if why.Unset {
		return said(err, ok, why.Available, why.Left, "unset")
	}
	return said(err, ok, why.Available, why.Left)
}

// numberRow is one case of a script that changes a number.
type numberRow struct {
	name     string
	setup    setup
	want     string
	after    string
	ttl      time.Duration
	received []string // by waiters
	claims   string   // the remaining claims of other waiters
}

// numbers runs every row as [table] does. A repeat of the operation must
// return the same result and change nothing.
func numbers(t *testing.T, channel string, call func(ctx context.Context, d driver.Driver) string, rows []numberRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, channel, false)
				want := func(got, want string, received ...string) {
					t.Helper()
					if got != want {
						t.Errorf("the answer is %q, want %q", got, want)
					}
					w.wantDump(t, job, r.after)
					w.wantTTL(t, job, r.ttl)
					if got := w.claimed(t); got != r.claims {
						t.Errorf("%q are claimed, want %q", got, r.claims)
					}
					sub.want(t, received...)
				}
				r.setup(t, w)
				want(call(t.Context(), w), r.want, r.received...)
				want(call(t.Context(), w), r.want)
				if ttl := w.ttl(t, keyspace.Operation(job, op)); ttl != absent && !w.near(ttl, script.Remembered) {
					t.Errorf("the record lasts %v, want %v", ttl, script.Remembered)
				}

				w.must(t, "FLUSHALL")
				r.setup(t, w)
				if got := call(t.Context(), lossy{w}); got != "unknown" {
					t.Errorf("with a lost reply the answer is %q, want the class unknown", got)
				}
				want(call(t.Context(), w), r.want, r.received...)
			})
		})
	}
}

// notNumbers are keys that no script of a number may change.
func notNumbers() []numberRow {
	rows := []numberRow{
		{name: "lock", setup: held(lease, java, "1"), want: "no number", after: "hash " + java + "=1", ttl: lease},
		{name: "list", setup: list, want: "no number", after: `list ["a"]`, ttl: none},
	}
	for _, text := range []string{"", "x", "5x", "1.5", "1e3", "0x10", " 5", "5 ", "+5", "05", "-0", "-", "--1", "nan", "inf", "5\n",
		"9007199254740992", "9007199254740993", "9223372036854775808", "-99999999999999999999"} {
		rows = append(rows, numberRow{name: fmt.Sprintf("text %q", text), setup: counts(text), want: "no number", after: "string " + text, ttl: none})
	}
	return rows
}

func TestSemaphoreAcquire(t *testing.T) {
	acquire := func(n int, waiter string) func(ctx context.Context, d driver.Driver) string {
		return func(ctx context.Context, d driver.Driver) string {
			ok, why, err := script.SemaphoreAcquire(ctx, d, job, trial, n, waiter, "")
			if ok {
				why = script.PermitRefusal{} // a repeat tells of no spare permits
			}
			return saidLack(err, ok, why)
		}
	}
	t.Run("without waiting", func(t *testing.T) {
		numbers(t, permitNews, acquire(3, ""), append(notNumbers(), []numberRow{
			{name: "as many", setup: counts("3"), want: "true 0 0", after: "string 0", ttl: none},
			{name: "more", setup: counts("2147483647"), want: "true 0 0", after: "string 2147483644", ttl: none},
			{name: "with a TTL", setup: limited("5"), want: "true 0 0", after: "string 2", ttl: 10 * time.Minute},
			{name: "too few", setup: counts("2"), want: "false 2 0", after: "string 2", ttl: none},
			{name: "none", setup: counts("0"), want: "false 0 0", after: "string 0", ttl: none},
			{name: "less than none", setup: counts("-4"), want: "false -4 0", after: "string -4", ttl: none},
			{name: "no semaphore", setup: nothing, want: "false 0 0 unset", after: "nothing", ttl: absent},
			{name: "claimed by another", setup: counts("5").then(claiming(6)), want: "false 5 6", after: "string 5", ttl: none, claims: "waiter0:6"},
			{name: "claimed by two", setup: counts("9").then(claiming(10, 1)), want: "false 9 11", after: "string 9", ttl: none, claims: "waiter0:10 waiter1:1"},
			{name: "enough for those before too", setup: counts("1").then(claiming(2)).then(counts("5")), want: "true 0 0", after: "string 2", ttl: none, claims: "waiter0:2"},
		}...))
	})
	t.Run("waiting", func(t *testing.T) {
		numbers(t, permitNews, acquire(3, "me"), append(notNumbers(), []numberRow{
			{name: "as many", setup: counts("3"), want: "true 0 0", after: "string 0", ttl: none},
			{name: "too few", setup: counts("2"), want: "false 2 0", after: "string 2", ttl: none, claims: "me:3"},
			{name: "no semaphore", setup: nothing, want: "false 0 0 unset", after: "nothing", ttl: absent, claims: "me:3"},
			{name: "behind others", setup: counts("5").then(claiming(6)), want: "false 5 6", after: "string 5", ttl: none, claims: "waiter0:6 me:3"},
			{name: "claimed before", setup: counts("0").then(func(t *testing.T, w *world) { claimFor(t, w, "me", 2) }).then(claiming(6)).then(counts("3")),
				want: "true 0 0", after: "string 0", ttl: none, claims: "waiter0:6"},
			{name: "claimed before, and refused", setup: counts("0").then(func(t *testing.T, w *world) { claimFor(t, w, "me", 2) }).then(claiming(6)),
				want: "false 0 0", after: "string 0", ttl: none, claims: "me:3 waiter0:6"},
		}...))
	})
}

func TestSemaphoreRelease(t *testing.T) {
	numbers(t, permitNews, func(ctx context.Context, d driver.Driver) string {
		total, became, err := script.SemaphoreRelease(ctx, d, job, trial, 3, script.Classic, "", 0)
		return said(err, became != script.NotHeld, total)
	}, append(notNumbers(), []numberRow{
		{name: "some", setup: counts("2"), want: "true 5", after: "string 5", ttl: none, received: []string{"5"}},
		{name: "some are missing", setup: counts("-4"), want: "true -1", after: "string -1", ttl: none, received: []string{"-1"}},
		{name: "no semaphore", setup: nothing, want: "true 3", after: "string 3", ttl: none, received: []string{"3"}},
		{name: "with a TTL", setup: limited("2"), want: "true 5", after: "string 5", ttl: 10 * time.Minute, received: []string{"5"}},
		{name: "the most", setup: counts("2147483644"), want: "true 2147483647", after: "string 2147483647", ttl: none, received: []string{"2147483647"}},
		{name: "too many", setup: counts("2147483645"), want: "false 2147483648", after: "string 2147483645", ttl: none},
	}...))
}

func TestSemaphoreAdd(t *testing.T) {
	add := func(n int) func(ctx context.Context, d driver.Driver) string {
		return func(ctx context.Context, d driver.Driver) string {
			total, done, err := script.SemaphoreAdd(ctx, d, job, trial, n, script.Classic)
			return said(err, done, total)
		}
	}
	t.Run("more", func(t *testing.T) {
		numbers(t, permitNews, add(3), append(notNumbers(), []numberRow{
			{name: "some", setup: counts("2"), want: "true 5", after: "string 5", ttl: none, received: []string{"5"}},
			{name: "no semaphore", setup: nothing, want: "true 3", after: "string 3", ttl: none, received: []string{"3"}},
			{name: "with a TTL", setup: limited("2"), want: "true 5", after: "string 5", ttl: none, received: []string{"5"}}, // like Redisson
			{name: "too many", setup: counts("2147483645"), want: "false 2147483648", after: "string 2147483645", ttl: none},
		}...))
	})
	t.Run("less", func(t *testing.T) {
		numbers(t, permitNews, add(-3), append(notNumbers(), []numberRow{
			{name: "some", setup: counts("5"), want: "true 2", after: "string 2", ttl: none, received: []string{"2"}},
			{name: "below zero", setup: counts("1"), want: "true -2", after: "string -2", ttl: none, received: []string{"-2"}},
			{name: "no semaphore", setup: nothing, want: "true -3", after: "string -3", ttl: none, received: []string{"-3"}},
			{name: "too few", setup: counts("-2147483645"), want: "false -2147483648", after: "string -2147483645", ttl: none},
		}...))
	})
}

func TestSemaphoreDrain(t *testing.T) {
	numbers(t, permitNews, func(ctx context.Context, d driver.Driver) string {
		n, err := script.SemaphoreDrain(ctx, d, job, trial)
		return said(err, n)
	}, append(notNumbers(), []numberRow{
		{name: "some", setup: counts("5"), want: "5", after: "string 0", ttl: none},
		{name: "none", setup: counts("0"), want: "0", after: "string 0", ttl: none},
		{name: "less than none", setup: counts("-5"), want: "-5", after: "string 0", ttl: none},
		{name: "with a TTL", setup: limited("5"), want: "5", after: "string 0", ttl: none}, // like Redisson
		{name: "no semaphore", setup: nothing, want: "0", after: "nothing", ttl: absent},
	}...))
}

func TestNumberSet(t *testing.T) {
	numbers(t, permitNews, func(ctx context.Context, d driver.Driver) string {
		ok, err := script.NumberSet(ctx, d, job, trial, 7, permitNews, "7", script.Classic)
		return said(err, ok)
	}, append(notNumbers(), []numberRow{
		{name: "no semaphore", setup: nothing, want: "true", after: "string 7", ttl: none, received: []string{"7"}},
		{name: "one", setup: counts("5"), want: "false", after: "string 5", ttl: none},
		{name: "one without permits", setup: counts("0"), want: "false", after: "string 0", ttl: none},
		{name: "one with a TTL", setup: limited("7"), want: "false", after: "string 7", ttl: 10 * time.Minute},
	}...))
}

func TestNumberDelete(t *testing.T) {
	for how, p := range map[string]script.Publish{"announced": script.Classic, "silent": script.Silent} {
		var received []string
		if p == script.Classic {
			received = []string{"1"}
		}
		t.Run(how, func(t *testing.T) {
			numbers(t, latchNews, func(ctx context.Context, d driver.Driver) string {
				ok, err := script.NumberDelete(ctx, d, job, trial, latchNews, "1", p)
				return said(err, ok)
			}, append(notNumbers(), []numberRow{
				{name: "one", setup: counts("5"), want: "true", after: "nothing", ttl: absent, received: received},
				{name: "one with a TTL", setup: limited("5"), want: "true", after: "nothing", ttl: absent, received: received},
				{name: "none", setup: nothing, want: "false", after: "nothing", ttl: absent},
			}...))
		})
	}
}

func TestNumberRead(t *testing.T) {
	numbers(t, permitNews, func(ctx context.Context, d driver.Driver) string {
		n, err := script.NumberRead(ctx, d, job)
		return said(err, n)
	}, append(notNumbers(), []numberRow{
		{name: "some", setup: counts("5"), want: "5", after: "string 5", ttl: none},
		{name: "less than none", setup: counts("-5"), want: "-5", after: "string -5", ttl: none},
		{name: "many", setup: counts("9007199254740991"), want: "9007199254740991", after: "string 9007199254740991", ttl: none},
		{name: "with a TTL", setup: limited("5"), want: "5", after: "string 5", ttl: 10 * time.Minute},
		{name: "none", setup: nothing, want: "0", after: "nothing", ttl: absent},
	}...))
}

func TestLatchCountDown(t *testing.T) {
	numbers(t, latchNews, func(ctx context.Context, d driver.Driver) string {
		left, done, err := script.LatchCountDown(ctx, d, job, trial, script.Classic)
		return said(err, done, left)
	}, append(notNumbers(), []numberRow{
		{name: "several", setup: counts("3"), want: "true 2", after: "string 2", ttl: none},
		{name: "with a TTL", setup: limited("3"), want: "true 2", after: "string 2", ttl: 10 * time.Minute},
		{name: "the last", setup: counts("1"), want: "true 0", after: "nothing", ttl: absent, received: []string{"0"}},
		{name: "open", setup: nothing, want: "true 0", after: "nothing", ttl: absent},
		{name: "zero", setup: counts("0"), want: "true 0", after: "nothing", ttl: absent},
		{name: "less than zero", setup: counts("-5"), want: "true 0", after: "nothing", ttl: absent},
		{name: "many", setup: counts("9007199254740991"), want: "true 9007199254740990", after: "string 9007199254740990", ttl: none},
	}...))
}
