package script_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// copies is an operation of which copies may arrive at any time: its reply is
// lost, it is repeated, others change the same key, and then a delayed copy
// arrives.
type copies struct {
	// run makes the calls of one operation, until its caller has an answer.
	run func(ctx context.Context, d driver.Driver, op script.Operation) string
	// late is the copy, if it is not run.
	late  func(ctx context.Context, d driver.Driver, op script.Operation)
	setup []setup // the content before it
	later []setup // the content after changes by others
}

// numbersOf are possible contents of the key of a semaphore or a latch.
var numbersOf = []setup{
	nothing, counts("5"), counts("1"), counts("0"), counts("-4"), counts("2147483647"), counts("-2147483647"), limited("5"),
	counts("x"), list, held(lease, java, "1"),
}

func onNumber(run func(ctx context.Context, d driver.Driver, op script.Operation) string) copies {
	return copies{run: run, setup: numbersOf, later: numbersOf}
}

// acquisition is what a caller of an acquisition does that gives up when it is
// refused.
func acquisition(waiter string) copies {
	c := onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		ok, _, err := script.SemaphoreAcquire(ctx, d, job, op, 3, waiter, "")
		if ok || err != nil && driver.ClassOf(err) == driver.Unknown {
			return said(err, ok)
		}
		_, undone := script.SemaphoreUndo(ctx, d, job, op, 3, waiter, true, script.Classic)
		return said(err, ok) + said(undone)
	})
	c.late = func(ctx context.Context, d driver.Driver, op script.Operation) {
		_, _, _ = script.SemaphoreAcquire(ctx, d, job, op, 3, waiter, "")
	}
	return c
}

// whole are the operations without an owner, by which Redis could recognize a late
// copy, by their scripts.
var whole = map[string][]copies{
	"number_set": {onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		set, err := script.NumberSet(ctx, d, job, op, 7, permitNews, "7", script.Classic)
		return said(err, set)
	})},
	"number_delete": {onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		done, err := script.NumberDelete(ctx, d, job, op, permitNews, "1", script.Classic)
		return said(err, done)
	})},
	"latch_count_down": {onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		left, done, err := script.LatchCountDown(ctx, d, job, op, script.Classic)
		return said(err, left, done)
	})},
	"semaphore_release": {onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		total, became, err := script.SemaphoreRelease(ctx, d, job, op, 3, script.Classic, "", 0)
		return said(err, total, became != script.NotHeld)
	})},
	"semaphore_add": {onNumber(adding(3)), onNumber(adding(-3))},
	"semaphore_drain": {onNumber(func(ctx context.Context, d driver.Driver, op script.Operation) string {
		n, err := script.SemaphoreDrain(ctx, d, job, op)
		return said(err, n)
	})},
	"semaphore_acquire": {acquisition(""), acquisition("me")},
	"semaphore_undo": {{
		run: func(ctx context.Context, d driver.Driver, op script.Operation) string {
			undone, err := script.SemaphoreUndo(ctx, d, job, op, 3, "me", true, script.Classic)
			return said(err, undone)
		},
		setup: append([]setup{counts("5").then(takes(3)), counts("5").then(takes(3)).then(deleted), counts("2").then(claiming(3))}, numbersOf...),
		later: numbersOf,
	}},
	"barrier_reset": {{
		run: func(ctx context.Context, d driver.Driver, op script.Operation) string {
			b := script.Barrier{Name: job, Parties: 3, Lease: lease, Publish: script.Classic}
			err := script.BarrierReset(ctx, d, b, fmt.Sprintf("%s:%d", op.Lane, op.Serial))
			return saidFate(script.Fate{Over: true}, err)
		},
		setup: barriersOf, later: barriersOf,
	}},
}

func adding(n int) func(ctx context.Context, d driver.Driver, op script.Operation) string {
	return func(ctx context.Context, d driver.Driver, op script.Operation) string {
		total, done, err := script.SemaphoreAdd(ctx, d, job, op, n, script.Classic)
		return said(err, total, done)
	}
}

func deleted(t *testing.T, w *world) { w.must(t, "DEL", job) }

var barriersOf = []setup{
	nothing, barrierOf(lease, cyclic(), seat{you, lease, " 0"}, seat{they, lease, " 1"}),
	barrierOf(lease, cyclic("broken", "broken left "+you)), barrierOf(lease, double(), seat{you, lease, ""}), held(lease, java, "1"), list,
}

// Why late copies of all others do no harm, or what handles the harm.
var notWhole = map[string]string{
	"barrier": "a part", "barrier_break": "a part", "claims": "a part", "double": "a part", "election": "a part", "fair": "a part", "fair_head": "a part",
	"fenced": "a part", "group": "a part", "number": "a part", "permit": "a part", "rw": "a part", "turns": "a part", "mark": "a part",
	"fenced_token": "a part", "pass": "a part", "redissons": "a part", "freed": "a part",

	"number_read": "reads", "election_read": "reads", "fair_inspect": "reads", "group_inspect": "reads", "inspect": "reads",
	"permit_inspect": "reads", "look": "reads", "sift": "reads", "tokens": "checks again that nobody uses them",

	"barrier_await": "a party arrives once", "barrier_leave": "a party leaves once", "double_enter": "a party enters once",
	"double_leave": "a party leaves once", "double_quit": "a party leaves once", "double_renew": "renews what its party has",

	"election_proclaim": "an edition of its owner's term is made once",
	"election_campaign": "an owner has one term, and resigns it", "election_resign": "ends what its owner has",
	"lock_acquire": "an id has one lease, and releases it", "fenced_acquire": "an id has one lease, and releases it",
	"fair_acquire": "an id has one lease, and releases it", "group_acquire": "an id has one lease, and releases it",
	"multi_acquire": "an id has one lease, and releases it", "rw_read_acquire": "an id has one lease, and releases it",
	"rw_write_acquire": "an id has one lease, and releases it", "permit_acquire": "an id has one lease, and releases it",
	"lock_leave": "changes what its id has", "lock_reenter": "changes what its id has", "lock_renew": "changes what its id has",
	"lock_release": "ends what its id has", "lock_keep": "ends what its id has, and never lengthens what it has left", "fenced_reenter": "changes what its id has", "fair_release": "ends what its id has", "lock_force": "ends what its id has, and moves the fence on once more, to where the next token is still newer",
	"fair_tend": "shows that a client lives", "group_leave": "changes what its id has", "group_reenter": "changes what its id has",
	"group_release": "ends what its id has", "group_renew": "changes what its id has", "multi_release": "ends what its id has",
	"rw_read_leave": "changes what its id has", "rw_read_reenter": "changes what its id has", "rw_read_release": "ends what its id has",
	"rw_read_renew": "changes what its id has", "rw_write_release": "ends what its id has",
	"rw_write": "a part", "rw_write_keep": "ends what its id has, and never lengthens what it has left", "permit_renew": "changes what its id has",

	"foreign":     "a part",
	"client_read": "reads", "client_list": "reads", "history_read": "reads", "turns_read": "reads",
	"client_record": "tests of its own", "client_index": "tells of a record that lasts no longer",
	"client_ask": "asks for what its id has once more", "history_add": "tells of an end twice; nothing depends on it",

	"permit_release": "tests of its own", "permit_set": "tests of its own", "permit_extend": "tests of its own",
	"permit_delete": "tests of its own",
}

func TestEachScriptSaysWhatALateCopyDoes(t *testing.T) {
	files, err := os.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	known := len(files)
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".lua")
		if _, why := whole[name], notWhole[name]; (whole[name] != nil) == (why != "") {
			t.Errorf("%s has to be put on trial by TestLateCopies, or say why not", name)
		}
	}
	if n := len(whole) + len(notWhole); n != known {
		t.Errorf("%d scripts are listed, want all %d", n, known)
	}
}

var instants = regexp.MustCompile(`\b\d{13}\b`)

// everything shows all content of Redis. In virtual time it includes TTLs.
func (w *world) everything(t *testing.T) string {
	t.Helper()
	keys := w.must(t, "KEYS", "*")
	lines := make([]string, keys.Len())
	for i := range lines {
		key := keys.At(i).Str()
		lines[i] = key + ": " + w.dump(t, key)
		if !w.real {
			lines[i] += fmt.Sprint(", ", w.ttl(t, key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestLateCopies(t *testing.T) {
	server := single(t)
	for name, trials := range whole {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				subs := []*subscriber{w.listen(t, permitNews, false), w.listen(t, barrierChannel, false)}
				for _, c := range trials {
					for i, setup := range c.setup {
						for j, later := range c.later {
							if !c.trial(t, w, setup, later, subs) {
								t.Fatalf("that was with setup %d and change %d", i, j)
							}
						}
					}
				}
			})
		})
	}
}

func (c copies) trial(t *testing.T, w *world, setup, later setup, subs []*subscriber) bool {
	t.Helper()
	ctx := t.Context()
	again := func() { // with the content that it finds
		w.must(t, "FLUSHALL")
		setup(t, w)
	}
	again()
	want := c.run(ctx, w, trial)
	all := w.everything(t)

	again()
	if got := c.run(ctx, lossy{w}, trial); got != "unknown" {
		t.Errorf("with a lost reply the answer is %q, want %q", got, "unknown")
	}
	same := func(when, got, want string) {
		t.Helper()
		if got, want := instants.ReplaceAllString(got, "T"), instants.ReplaceAllString(want, "T"); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	same("a repeat answers", c.run(ctx, w, trial), want)
	same("after a repeat there is", w.everything(t), all)

	nothingHappens := func(when string) {
		t.Helper()
		for _, e := range subs {
			e.received(t)
		}
		before := w.everything(t)
		if c.late != nil {
			c.late(ctx, w, trial)
		} else {
			_ = c.run(ctx, w, trial)
		}
		if after := w.everything(t); after != before {
			t.Errorf("%s a late copy leaves\n%s\nwant\n%s", when, after, before)
		}
		for _, e := range subs {
			e.want(t)
		}
	}
	w.must(t, "DEL", job)
	later(t, w)
	if c.late == nil {
		before := w.everything(t)
		same("a repeat answers, when others have changed it,", c.run(ctx, w, trial), want)
		same("after that there is", w.everything(t), before)
	}
	nothingHappens("when others have changed it,")
	next := trial
	next.Serial++
	_ = c.run(ctx, w, next)
	nothingHappens("when the lane has deleted on,")
	return !t.Failed()
}
