package script_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// The parties of most tests, besides me and mine2.
const (
	you  = "3f0c2f5e-4a3b-4c1d-8e6f-7a8b9c0d1e2f:1"
	they = "3f0c2f5e-4a3b-4c1d-8e6f-7a8b9c0d1e2f:2"
)

var barrierChannel = keyspace.BarrierChannel(job)

func outcomeKey(party string) string { return keyspace.BarrierOutcomes(job) + ":" + party }

// seat is a party in a barrier in Redis: the party, the rest of its lease, and what
// follows it in the entry. A lease of 0 stands for a party that has left.
type seat struct {
	party string
	left  time.Duration
	more  string
}

// barrierOf puts a barrier there.
func barrierOf(ttl time.Duration, fields map[string]string, seats ...seat) setup {
	return func(t *testing.T, w *world) {
		t.Helper()
		now := w.now(t)
		first, args := int64(0), []string{}
		for name, value := range fields {
			args = append(args, name, value)
		}
		for _, s := range seats {
			entry := "left"
			if s.left != 0 {
				till := now + s.left.Milliseconds()
				if first == 0 || till < first {
					first = till
				}
				entry = fmt.Sprint(till) + s.more
			}
			args = append(args, s.party, entry)
		}
		if first != 0 {
			args = append(args, "next", fmt.Sprint(first))
		}
		w.hold(t, job, ttl, args...)
	}
}

func cyclic(more ...string) map[string]string { return barrierFields("barrier", "3", more) }

func double(more ...string) map[string]string { return barrierFields("doublebarrier", "3", more) }

func barrierFields(mode, parties string, more []string) map[string]string {
	m := map[string]string{"mode": mode, "parties": parties}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

func told(outcome setup, party, what string) setup {
	return func(t *testing.T, w *world) {
		outcome(t, w)
		w.must(t, "SET", outcomeKey(party), what, "PX", "600000")
	}
}

var instant = regexp.MustCompile(`\b\d{12,13}\b`)

// layout shows the barrier, with T for all instants, followed by the parties'
// outcomes.
func (w *world) layout(t *testing.T) string {
	t.Helper()
	b := strings.TrimPrefix(instant.ReplaceAllString(w.dump(t, job), "T"), "hash ")
	names := map[string]string{me: "me", mine2: "mine2", you: "you", they: "they"}
	parts := []string{}
	for _, id := range []string{me, mine2, you, they} {
		if what := w.dump(t, outcomeKey(id)); what != "nothing" {
			parts = append(parts, names[id]+": "+strings.TrimPrefix(what, "string "))
			if ttl := w.ttl(t, outcomeKey(id)); ttl <= 0 {
				t.Errorf("what %s is told has the TTL %v", names[id], ttl)
			}
		}
	}
	s := strings.Join(append([]string{b}, parts...), "; ")
	for id, name := range names {
		s = strings.ReplaceAll(s, id, name)
	}
	// In the order of the names.
	head, tail, _ := strings.Cut(s, ";")
	fields := regexp.MustCompile(`\S+=[^=]*( |$)`).FindAllString(head+" ", -1)
	if strings.Contains(head, "=") {
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		slices.Sort(fields)
		head = strings.Join(fields, ", ")
	}
	if tail != "" {
		head += ";" + tail
	}
	return head
}

type barrierRow struct {
	name     string
	setup    setup
	want     string // the answer
	after    string // as layout shows it
	messages int
	repeat   string // the reply to the same call once more, if different
}

func saidFate(f script.Fate, err error) string {
	names := strings.NewReplacer(me, "me", mine2, "mine2", you, "you", they, "they")
	switch {
	case err != nil:
		return classOf(err)
	case !f.Over:
		return fmt.Sprint("waits, there: ", f.There)
	case f.Why != "":
		return strings.TrimSpace("broken " + f.Why + " " + names.Replace(f.Who))
	default:
		return fmt.Sprint("over ", f.Index)
	}
}

func saidDone(err error) string {
	if err == nil {
		return "done"
	}
	return saidFate(script.Fate{}, err)
}

// barriers runs every row as [table] does.
func barriers(t *testing.T, call func(ctx context.Context, d driver.Driver) string, rows []barrierRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		repeat := r.want
		if r.repeat != "" {
			repeat = r.repeat
		}
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, barrierChannel, false)
				check := func(got, want string, messages int) {
					t.Helper()
					if got != want {
						t.Errorf("the answer is %q, want %q", got, want)
					}
					if got := w.layout(t); got != r.after {
						t.Errorf("in Redis lies\n%s, want\n%s", got, r.after)
					}
					if ttl := w.ttl(t, job); ttl == none && !strings.HasPrefix(r.after, "list") {
						t.Error("the barrier has no TTL")
					}
					if n := len(sub.received(t)); n != messages {
						t.Errorf("%d messages, want %d", n, messages)
					}
				}
				r.setup(t, w)
				check(call(t.Context(), w), r.want, r.messages)
				check(call(t.Context(), w), repeat, 0)

				w.must(t, "FLUSHALL")
				r.setup(t, w)
				if got := call(t.Context(), lossy{w}); got != "unknown" {
					t.Errorf("with a lost reply the answer is %q, want unknown", got)
				}
				check(call(t.Context(), w), repeat, r.messages)
			})
		})
	}
}

// notBarriers are keys that the scripts of a barrier must leave alone.
func notBarriers(kind string) []barrierRow {
	return []barrierRow{
		{name: "plain lock", setup: held(lease, java, "1"), want: "kind", after: java + "=1"},
		{name: "read lock", setup: held(lease, "mode", "read", java, "1"), want: "kind", after: java + "=1, mode=read"},
		{name: "election", setup: held(lease, "mode", "election", "term", "1", "value", "v", "edition", "0", java, "1"), want: "kind",
			after: java + "=1, edition=0, mode=election, term=1, value=v"},
		{name: "the other kind of barrier", setup: held(lease, "mode", kind, "parties", "3"), want: "kind", after: "mode=" + kind + ", parties=3"},
		{name: "string", setup: text, want: "kind", after: "string 5"},
		{name: "list", setup: list, want: "kind", after: `list ["a"]`},
	}
}

var ours = script.Barrier{Name: job, Parties: 3, Lease: lease}

const ten = 10 * time.Minute

func await(known bool) func(ctx context.Context, d driver.Driver) string {
	return func(ctx context.Context, d driver.Driver) string {
		return saidFate(script.BarrierAwait(ctx, d, ours, me, known))
	}
}

func TestBarrierAwait(t *testing.T) {
	barriers(t, await(false), append(notBarriers("doublebarrier"), []barrierRow{
		{name: "first", setup: nothing, want: "waits, there: 1", after: "me=T 0, mode=barrier, next=T, parties=3"},
		{name: "second", setup: barrierOf(ten, cyclic(), seat{you, ten, " 0"}), want: "waits, there: 2", after: "me=T 1, mode=barrier, next=T, parties=3, you=T 0"},
		{name: "last", setup: barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), want: "over 2",
			after: "nothing; me: passed 2; you: passed 0; they: passed 1", messages: 1},
		{name: "arrived already", setup: barrierOf(ten, cyclic(), seat{me, ten, " 0"}, seat{they, ten, " 1"}), want: "waits, there: 2", after: "me=T 0, mode=barrier, next=T, parties=3, they=T 1"},
		{name: "passed already", setup: told(nothing, me, "passed 1"), want: "over 1", after: "nothing; me: passed 1"},
		{name: "passed already, and others came since", setup: told(barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), me, "passed 1"), want: "over 1",
			after: "mode=barrier, next=T, parties=3, they=T 1, you=T 0; me: passed 1"},
		{name: "broken already", setup: told(nothing, me, "broken died "+you), want: "broken died you", after: "nothing; me: broken died you"},
		{name: "left already", setup: told(barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), me, "left"), want: "broken left",
			after: "mode=barrier, next=T, parties=3, they=T 1, you=T 0; me: left"},
		{name: "broken", setup: barrierOf(ten, cyclic("broken", "broken left "+you)), want: "broken left you", after: "broken=broken left you, mode=barrier, parties=3"},
		{name: "somebody has died", setup: barrierOf(ten, cyclic(), seat{you, -time.Second, " 0"}, seat{they, ten, " 1"}), want: "broken died you",
			after: "broken=broken died you, mode=barrier, parties=3; you: broken died you; they: broken died you", messages: 1},
		{name: "I have died", setup: barrierOf(ten, cyclic(), seat{me, -time.Second, " 0"}, seat{they, ten, " 1"}), want: "broken died me",
			after: "broken=broken died me, mode=barrier, parties=3; me: broken died me; they: broken died me", messages: 1},
		{name: "for others", setup: barrierOf(ten, barrierFields("barrier", "4", nil), seat{you, ten, " 0"}), want: "wrong type", after: "mode=barrier, next=T, parties=4, you=T 0"},
		{name: "without TTL", setup: barrierOf(none, cyclic(), seat{you, ten, " 0"}), want: "waits, there: 2", after: "me=T 1, mode=barrier, next=T, parties=3, you=T 0"},
		{name: "damaged entry", setup: barrierOf(ten, cyclic(you, "x")), want: "broken died you", after: "broken=broken died you, mode=barrier, parties=3; you: broken died you", messages: 1},
		{name: "outcome of others' making", setup: told(nothing, me, "two words"), want: "wrong type", after: "nothing; me: two words"},
		{name: "outcome of another type", setup: func(t *testing.T, w *world) {
			w.must(t, "RPUSH", outcomeKey(me), "x")
			w.must(t, "PEXPIRE", outcomeKey(me), "1000000")
		},
			want: "wrong type", after: `nothing; me: list ["x"]`},
	}...))
}

func TestBarrierAwaitOfWhoHasArrived(t *testing.T) {
	barriers(t, await(true), []barrierRow{
		{name: "waits", setup: barrierOf(ten, cyclic(), seat{me, ten, " 0"}, seat{they, ten, " 1"}), want: "waits, there: 2", after: "me=T 0, mode=barrier, next=T, parties=3, they=T 1"},
		{name: "passed", setup: told(nothing, me, "passed 0"), want: "over 0", after: "nothing; me: passed 0"},
		{name: "deleted", setup: nothing, want: "broken lost", after: "nothing"},
		{name: "deleted, and others came since", setup: barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), want: "broken lost",
			after: "mode=barrier, next=T, parties=3, they=T 1, you=T 0"},
	})
}

func TestBarrierForOneAndMismatch(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		one := script.Barrier{Name: job, Parties: 1, Lease: lease}
		if got := saidFate(script.BarrierAwait(t.Context(), w, one, me, false)); got != "over 0" {
			t.Errorf("alone: %s, want %q", got, "over 0")
		}
		barrierOf(ten, cyclic(), seat{you, ten, " 0"})(t, w)
		_, err := script.BarrierAwait(t.Context(), w, one, mine2, false)
		if err == nil || !strings.Contains(err.Error(), "a barrier for 3 parties, not for 1") {
			t.Errorf("got %v, want it to say for how many the barrier is", err)
		}
		// Any program may have written the number, and the error is read on terminals.
		for _, size := range []string{"\x1b[2J", strings.Repeat("9", 5000), "3 "} {
			w.must(t, "HSET", job, "parties", size)
			_, err := script.BarrierAwait(t.Context(), w, one, mine2, false)
			if err == nil || len(err.Error()) > 100 || strings.ContainsRune(err.Error(), '\x1b') || !strings.Contains(err.Error(), `"`) {
				t.Errorf("got %.200q, want an error that quotes the beginning of the number", err)
			}
		}
	})
}

func TestBarrierLeave(t *testing.T) {
	barriers(t, func(ctx context.Context, d driver.Driver) string {
		return saidDone(script.BarrierLeave(ctx, d, ours, me))
	}, append(notBarriers("doublebarrier"), []barrierRow{
		{name: "waited", setup: barrierOf(ten, cyclic(), seat{me, ten, " 0"}, seat{they, ten, " 1"}), want: "done",
			after: "broken=broken left me, mode=barrier, parties=3; me: broken left me; they: broken left me", messages: 1},
		{name: "waited, without TTL", setup: barrierOf(none, cyclic(), seat{me, ten, " 0"}), want: "done", after: "broken=broken left me, mode=barrier, parties=3; me: broken left me", messages: 1},
		{name: "had not arrived", setup: nothing, want: "done", after: "nothing; me: left"},
		{name: "had not arrived, others have", setup: barrierOf(ten, cyclic(), seat{you, ten, " 0"}), want: "done", after: "mode=barrier, next=T, parties=3, you=T 0; me: left"},
		{name: "passed", setup: told(barrierOf(ten, cyclic(), seat{you, ten, " 0"}), me, "passed 0"), want: "done", after: "mode=barrier, next=T, parties=3, you=T 0; me: passed 0"},
		{name: "broken", setup: barrierOf(ten, cyclic("broken", "broken left "+you)), want: "done", after: "broken=broken left you, mode=barrier, parties=3; me: left"},
		{name: "damaged", setup: barrierOf(ten, map[string]string{"mode": "barrier"}, seat{me, ten, " 0"}), want: "done", after: "broken=broken left me, mode=barrier, parties=; me: broken left me", messages: 1},
	}...))
}

func TestBarrierReset(t *testing.T) {
	foreign := notBarriers("doublebarrier")
	for i := range foreign {
		foreign[i].after += "; me: refused" // a late copy finds out that it is late
	}
	barriers(t, func(ctx context.Context, d driver.Driver) string {
		return saidDone(script.BarrierReset(ctx, d, ours, me))
	}, append(foreign, []barrierRow{
		{name: "some wait", setup: barrierOf(ten, cyclic(), seat{you, ten, " 0"}, seat{they, ten, " 1"}), want: "done",
			after: "nothing; me: reset; you: broken reset me; they: broken reset me", messages: 1},
		{name: "broken", setup: barrierOf(ten, cyclic("broken", "broken left "+you)), want: "done", after: "nothing; me: reset", messages: 1},
		{name: "nobody waits", setup: nothing, want: "done", after: "nothing; me: reset", messages: 1},
		{name: "reset already, and others came since", setup: told(barrierOf(ten, cyclic(), seat{you, ten, " 0"}), me, "reset"), want: "done",
			after: "mode=barrier, next=T, parties=3, you=T 0; me: reset"},
	}...))
}

func saidEntry(inside int, open bool, by script.Holder, err error) string {
	switch {
	case err != nil:
		return saidFate(script.Fate{}, err)
	case open:
		return "open"
	case inside > 0:
		return fmt.Sprint("waits, there: ", inside)
	case by.Owner != "":
		return "taken"
	default:
		return "out"
	}
}

func enter(known bool) func(ctx context.Context, d driver.Driver) string {
	return func(ctx context.Context, d driver.Driver) string {
		return saidEntry(script.DoubleEnter(ctx, d, ours, me, known))
	}
}

func TestDoubleEnter(t *testing.T) {
	barriers(t, enter(false), append(notBarriers("barrier"), []barrierRow{
		{name: "first", setup: nothing, want: "waits, there: 1", after: "me=T, mode=doublebarrier, next=T, parties=3"},
		{name: "second", setup: barrierOf(ten, double(), seat{you, ten, ""}), want: "waits, there: 2", after: "me=T, mode=doublebarrier, next=T, parties=3, you=T"},
		{name: "last", setup: barrierOf(ten, double(), seat{you, ten, ""}, seat{they, ten, ""}), want: "open",
			after: "me=T, mode=doublebarrier, next=T, open=1, parties=3, they=T, you=T; me: inside; you: inside; they: inside", messages: 1},
		{name: "all were inside, and the key has ended", setup: told(nothing, me, "inside"), want: "out", after: "nothing; me: inside"},
		{name: "all were inside, and others came since", setup: told(barrierOf(ten, double(), seat{you, ten, ""}), me, "inside"), want: "out",
			after: "mode=doublebarrier, next=T, parties=3, you=T; me: inside"},
		{name: "all are inside", setup: told(barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""}), me, "inside"), want: "open",
			after: "me=T, mode=doublebarrier, next=T, open=1, parties=3, you=T; me: inside"},
		{name: "entered already", setup: barrierOf(ten, double(), seat{me, ten, ""}), want: "waits, there: 1", after: "me=T, mode=doublebarrier, next=T, parties=3"},
		{name: "entered already, open", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, 0, ""}, seat{they, ten, ""}), want: "open",
			after: "me=T, mode=doublebarrier, next=T, open=1, parties=3, they=T, you=left"},
		{name: "left already", setup: barrierOf(ten, double("open", "1"), seat{me, 0, ""}, seat{they, ten, ""}), want: "out",
			after: "me=left, mode=doublebarrier, next=T, open=1, parties=3, they=T"},
		{name: "the round is over for me", setup: told(barrierOf(ten, double(), seat{you, ten, ""}), me, "over"), want: "out", after: "mode=doublebarrier, next=T, parties=3, you=T; me: over"},
		{name: "others are inside", setup: barrierOf(ten, double("open", "1"), seat{mine2, ten, ""}, seat{you, 0, ""}, seat{they, ten, ""}), want: "taken",
			after: "mine2=T, mode=doublebarrier, next=T, open=1, parties=3, they=T, you=left"},
		{name: "one that waited has died", setup: barrierOf(ten, double(), seat{you, -time.Second, ""}, seat{they, ten, ""}), want: "waits, there: 2",
			after: "me=T, mode=doublebarrier, next=T, parties=3, they=T"},
		{name: "all that waited have died", setup: barrierOf(ten, double(), seat{you, -time.Second, ""}, seat{they, -time.Second, ""}), want: "waits, there: 1",
			after: "me=T, mode=doublebarrier, next=T, parties=3"},
		{name: "all that were inside have died", setup: barrierOf(ten, double("open", "1"), seat{you, -time.Second, ""}, seat{they, 0, ""}), want: "waits, there: 1",
			after: "me=T, mode=doublebarrier, next=T, parties=3; you: broken died you; they: broken died you", messages: 1},
		{name: "I have died", setup: barrierOf(ten, double(), seat{me, -time.Second, ""}, seat{they, ten, ""}), want: "waits, there: 2", after: "me=T, mode=doublebarrier, next=T, parties=3, they=T"},
		{name: "for others", setup: barrierOf(ten, barrierFields("doublebarrier", "4", nil), seat{you, ten, ""}), want: "wrong type", after: "mode=doublebarrier, next=T, parties=4, you=T"},
		{name: "without TTL", setup: barrierOf(none, double(), seat{you, ten, ""}), want: "waits, there: 2", after: "me=T, mode=doublebarrier, next=T, parties=3, you=T"},
	}...))
}

func TestDoubleEnterOfWhoHasEntered(t *testing.T) {
	barriers(t, enter(true), []barrierRow{
		{name: "waits", setup: barrierOf(ten, double(), seat{me, ten, ""}), want: "waits, there: 1", after: "me=T, mode=doublebarrier, next=T, parties=3"},
		{name: "open", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}), want: "open", after: "me=T, mode=doublebarrier, next=T, open=1, parties=3"},
		{name: "deleted", setup: nothing, want: "out", after: "nothing"},
		{name: "deleted, and others came since", setup: barrierOf(ten, double(), seat{you, ten, ""}), want: "out", after: "mode=doublebarrier, next=T, parties=3, you=T"},
		{name: "I have died", setup: barrierOf(ten, double(), seat{me, -time.Second, ""}, seat{they, ten, ""}), want: "out", after: "mode=doublebarrier, next=T, parties=3, they=T"},
	})
}

func TestDoubleLeave(t *testing.T) {
	barriers(t, func(ctx context.Context, d driver.Driver) string {
		return saidFate(script.DoubleLeave(ctx, d, ours, me))
	}, append(notBarriers("barrier"), []barrierRow{
		{name: "first", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""}, seat{they, ten, ""}), want: "waits, there: 2",
			after: "me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, they=T, you=T"},
		{name: "all are inside", setup: told(barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""}, seat{they, ten, ""}), me, "inside"), want: "waits, there: 2",
			after: "me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, they=T, you=T; me: inside"},
		{name: "left already", setup: barrierOf(ten, double("open", "1", "out", "1"), seat{me, 0, ""}, seat{you, ten, ""}), want: "waits, there: 2",
			after: "me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, you=T"},
		{name: "last", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, 0, ""}, seat{they, 0, ""}), want: "over 0",
			after: "nothing; me: over; you: over; they: over", messages: 1},
		{name: "the others have died", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, -time.Second, ""}, seat{they, 0, ""}), want: "broken died you",
			after: "nothing; me: broken died you; you: broken died you; they: broken died you", messages: 1},
		{name: "I wait, and the others have died", setup: barrierOf(ten, double("open", "1"), seat{me, 0, ""}, seat{you, -time.Second, ""}), want: "broken died you",
			after: "nothing; me: broken died you; you: broken died you", messages: 1},
		{name: "I have died", setup: barrierOf(ten, double("open", "1"), seat{me, -time.Second, ""}, seat{you, ten, ""}), want: "waits, there: 2",
			after: "broken=broken died me, me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, you=T"},
		{name: "one quit before", setup: barrierOf(ten, double("open", "1", "broken", "broken left "+you), seat{me, ten, ""}, seat{you, 0, ""}), want: "broken left you",
			after: "nothing; me: broken left you; you: broken left you", messages: 1},
		{name: "over", setup: told(nothing, me, "over"), want: "over 0", after: "nothing; me: over"},
		{name: "deleted", setup: nothing, want: "broken lost", after: "nothing"},
		{name: "all were inside, and the key has ended", setup: told(nothing, me, "inside"), want: "broken lost", after: "nothing; me: inside"},
		{name: "deleted, and others came since", setup: barrierOf(ten, double(), seat{you, ten, ""}), want: "broken lost", after: "mode=doublebarrier, next=T, parties=3, you=T"},
	}...))
}

func TestDoubleQuit(t *testing.T) {
	barriers(t, func(ctx context.Context, d driver.Driver) string {
		ok, err := script.DoubleQuit(ctx, d, ours, me)
		if err == nil && !ok {
			return "not inside"
		}
		return saidDone(err)
	}, append(notBarriers("barrier"), []barrierRow{
		{name: "waited for others", setup: barrierOf(ten, double(), seat{me, ten, ""}, seat{you, ten, ""}), want: "done", repeat: "not inside",
			after: "mode=doublebarrier, next=T, parties=3, you=T; me: gone"},
		{name: "waited alone", setup: barrierOf(ten, double(), seat{me, ten, ""}), want: "done", repeat: "not inside", after: "nothing; me: gone"},
		{name: "was inside", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""}), want: "done", repeat: "not inside",
			after: "broken=broken left me, me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, you=T; me: gone"},
		{name: "all are inside", setup: told(barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, ten, ""}), me, "inside"), want: "done", repeat: "not inside",
			after: "broken=broken left me, me=left, mode=doublebarrier, next=T, open=1, out=1, parties=3, you=T; me: gone"},
		{name: "was the last inside", setup: barrierOf(ten, double("open", "1"), seat{me, ten, ""}, seat{you, 0, ""}), want: "done", repeat: "not inside",
			after: "nothing; me: broken left me; you: broken left me", messages: 1},
		{name: "has left", setup: barrierOf(ten, double("open", "1"), seat{me, 0, ""}, seat{you, ten, ""}), want: "not inside",
			after: "me=left, mode=doublebarrier, next=T, open=1, parties=3, you=T"},
		{name: "was never there", setup: nothing, want: "not inside", after: "nothing; me: gone"},
		{name: "over", setup: told(nothing, me, "over"), want: "not inside", after: "nothing; me: over"},
	}...))
}

func TestDoubleRenew(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for name, test := range map[string]struct {
			setup setup
			want  int
			after string
			ttl   time.Duration
		}{
			"inside":       {barrierOf(time.Minute, double(), seat{me, time.Minute, ""}), script.Renewed, "me=T, mode=doublebarrier, next=T, parties=3", lease},
			"for longer":   {barrierOf(ten, double(), seat{me, ten, ""}), script.Renewed, "me=T, mode=doublebarrier, next=T, parties=3", ten},
			"over":         {barrierOf(ten, double(), seat{me, -time.Second, ""}), script.Gone, "me=T, mode=doublebarrier, next=T, parties=3", ten},
			"left":         {barrierOf(ten, double(), seat{me, 0, ""}), script.Gone, "me=left, mode=doublebarrier, parties=3", ten},
			"others":       {barrierOf(ten, double(), seat{you, ten, ""}), script.Gone, "mode=doublebarrier, next=T, parties=3, you=T", ten},
			"gone":         {nothing, script.Gone, "nothing", absent},
			"another type": {text, script.Taken, "string 5", ten},
		} {
			w.must(t, "FLUSHALL")
			test.setup(t, w)
			for range 2 {
				r := script.Renew(t.Context(), w, [][]script.Renewal{{script.DoubleRenewal(job, me, lease), script.DoubleRenewal("x", me, lease)}})[0]
				if r.Err != nil || !slices.Equal(r.States, []int{test.want, script.Gone}) {
					t.Errorf("%s: %v, %v, want %d", name, r.States, r.Err, test.want)
				}
				if got := w.layout(t); got != test.after {
					t.Errorf("%s: in Redis lies %s, want %s", name, got, test.after)
				}
				w.wantTTL(t, job, test.ttl)
			}
		}
	})
}

// A party that shows a sign of life in time is not found dead; one that does not is, at
// the end of its lease and not before.
func TestBarrierLeasesEndOnTime(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		short, long := script.Barrier{Name: job, Parties: 4, Lease: time.Second}, script.Barrier{Name: job, Parties: 4, Lease: 3 * time.Second}
		want := func(b script.Barrier, party, want string) {
			t.Helper()
			if got := saidFate(script.BarrierAwait(t.Context(), w, b, party, false)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		want(long, you, "waits, there: 1")
		want(short, me, "waits, there: 2")
		for range 10 {
			time.Sleep(999 * time.Millisecond)
			want(short, me, "waits, there: 2")
			want(long, you, "waits, there: 2")
		}
		time.Sleep(999 * time.Millisecond)
		want(long, you, "waits, there: 2")
		time.Sleep(time.Millisecond)
		want(long, you, "broken died me")
		want(short, me, "broken died me")
		want(long, they, "broken died me") // a party that arrives late
		time.Sleep(3 * time.Second)
		want(long, mine2, "waits, there: 1") // Redis has forgotten it
	})
}

var barrierCalls = map[string]func(ctx context.Context, d driver.Driver) error{
	"BarrierAwait": func(ctx context.Context, d driver.Driver) error {
		f, err := script.BarrierAwait(ctx, d, ours, me, false)
		return unless(f != (script.Fate{}), err)
	},
	"BarrierLeave": func(ctx context.Context, d driver.Driver) error { return script.BarrierLeave(ctx, d, ours, me) },
	"BarrierReset": func(ctx context.Context, d driver.Driver) error { return script.BarrierReset(ctx, d, ours, me) },
	"DoubleEnter": func(ctx context.Context, d driver.Driver) error {
		inside, open, by, err := script.DoubleEnter(ctx, d, ours, me, false)
		return unless(inside > 0 || open || by != (script.Holder{}), err)
	},
	"DoubleLeave": func(ctx context.Context, d driver.Driver) error {
		f, err := script.DoubleLeave(ctx, d, ours, me)
		return unless(f != (script.Fate{}), err)
	},
	"DoubleQuit": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.DoubleQuit(ctx, d, ours, me)
		return unless(ok, err)
	},
	"DoubleRenewal": func(ctx context.Context, d driver.Driver) error {
		r := script.Renew(ctx, d, [][]script.Renewal{{script.DoubleRenewal(job, me, lease), script.DoubleRenewal("x", me, lease)}})[0]
		return unless(r.States != nil, r.Err)
	},
}

func init() { maps.Copy(everyCall, barrierCalls) }
