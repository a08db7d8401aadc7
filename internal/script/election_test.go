package script_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var (
	terms    = keyspace.Token(job)
	vacancy  = keyspace.ElectionChannel(job)
	election = keyspace.ElectionNews(job)
)

// leads is an election in Redis; the number of terms so far is that of this one.
func leads(ttl time.Duration, owner, value, term, edition string) setup {
	return func(t *testing.T, w *world) {
		w.hold(t, job, ttl, "mode", "election", "term", term, "value", value, "edition", edition, owner, "1")
		w.must(t, "SET", terms, term)
	}
}

func leading(owner, value, term, edition string) string {
	return fmt.Sprintf("hash %s=1 edition=%s mode=election term=%s value=%s", owner, edition, term, value)
}

func numbered(n string) setup {
	return func(t *testing.T, w *world) { w.must(t, "SET", terms, n) }
}

// termAnswer is the result of a script of an election.
type termAnswer struct {
	answer
	term   int64
	leader script.Leader
}

type electionRow struct {
	name   string
	setup  setup
	want   termAnswer
	after  string
	ttl    time.Duration
	terms  string  // the content of the counter afterwards
	news   int     // the number of messages
	vacant int     // the number of messages that candidates get
	repeat *answer // the reply to the same call once more, if different
}

// elections runs every row as [table] does.
func elections(t *testing.T, call func(ctx context.Context, d driver.Driver) termAnswer, rows []electionRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		repeat := r.want
		if r.repeat != nil {
			repeat = termAnswer{answer: *r.repeat}
		}
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				news, vacant := w.listen(t, election, false), w.listen(t, vacancy, false)
				check := func(messages bool) {
					t.Helper()
					w.wantDump(t, job, r.after)
					w.wantTTL(t, job, r.ttl)
					w.wantDump(t, terms, r.terms)
					n, v := 0, 0
					if messages {
						n, v = r.news, r.vacant
					}
					if got := len(news.received(t)); got != n {
						t.Errorf("observers got %d messages, want %d", got, n)
					}
					if got := len(vacant.received(t)); got != v {
						t.Errorf("candidates got %d messages, want %d", got, v)
					}
				}
				want := func(got, want termAnswer) {
					t.Helper()
					if w.near(got.by.TTL, want.by.TTL) {
						got.by.TTL = want.by.TTL
					}
					if w.near(got.leader.TTL, want.leader.TTL) {
						got.leader.TTL = want.leader.TTL
					}
					if got != want {
						t.Errorf("the answer is %+v, want %+v", got, want)
					}
				}
				r.setup(t, w)
				want(call(t.Context(), w), r.want)
				check(true)
				want(call(t.Context(), w), repeat)
				check(false)

				w.must(t, "DEL", job, terms)
				r.setup(t, w)
				if got := call(t.Context(), lossy{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				want(call(t.Context(), w), repeat)
				check(true)
			})
		})
	}
}

func isTerm(n int64) termAnswer { return termAnswer{answer: yes, term: n} }

func isRefused(class string) termAnswer {
	return termAnswer{answer: refused(class)}
}

func isHeld(owner string, ttl time.Duration) termAnswer {
	return termAnswer{answer: heldBy(owner, 1, ttl)}
}

// notElections are keys that the scripts of an election must leave alone.
func notElections(want termAnswer) []electionRow {
	return []electionRow{
		{name: "plain lock", setup: held(lease, java, "1"), want: want, after: "hash " + java + "=1", ttl: lease, terms: "nothing"},
		{name: "read lock", setup: held(lease, "mode", "read", java, "1"), want: want, after: "hash " + java + "=1 mode=read", ttl: lease, terms: "nothing"},
		{name: "write lock of five", setup: held(lease, "mode", "write", java+":write", "1", "a:1", "1", "a:2", "1", "a:3", "1"), want: want,
			after: "hash " + java + ":write=1 a:1=1 a:2=1 a:3=1 mode=write", ttl: lease, terms: "nothing"},
		{name: "damaged", setup: held(lease, "mode", "election"), want: want, after: "hash mode=election", ttl: lease, terms: "nothing"},
		{name: "string", setup: text, want: isRefused("wrong type"), after: "string 5", ttl: 10 * time.Minute, terms: "nothing"},
		{name: "list", setup: list, want: isRefused("wrong type"), after: `list ["a"]`, ttl: none, terms: "nothing"},
	}
}

func campaign(ctx context.Context, d driver.Driver) termAnswer {
	term, by, err := script.ElectionCampaign(ctx, d, job, me, "here", lease, script.Classic)
	return termAnswer{answer: answered(term > 0, by, err), term: term}
}

func TestElectionCampaign(t *testing.T) {
	elections(t, campaign, append(notElections(isRefused("kind")), []electionRow{
		{name: "nobody leads", setup: nothing, want: isTerm(1), after: leading(me, "here", "1", "0"), ttl: lease, terms: "string 1", news: 1},
		{name: "nobody leads any more", setup: numbered("41"), want: isTerm(42), after: leading(me, "here", "42", "0"), ttl: lease, terms: "string 42", news: 1},
		{name: "many terms", setup: numbered("9007199254740000"), want: isTerm(9007199254740001), after: leading(me, "here", "9007199254740001", "0"), ttl: lease,
			terms: "string 9007199254740001", news: 1},
		// An earlier copy of this call has run.
		{name: "mine", setup: leads(time.Minute, me, "here", "7", "0"), want: isTerm(7), after: leading(me, "here", "7", "0"), ttl: lease, terms: "string 7"},
		{name: "mine, changed since", setup: leads(time.Minute, me, "there", "7", "3"), want: isTerm(7), after: leading(me, "there", "7", "3"), ttl: lease, terms: "string 7"},
		{name: "mine, for longer", setup: leads(10*time.Minute, me, "here", "7", "0"), want: isTerm(7), after: leading(me, "here", "7", "0"), ttl: 10 * time.Minute, terms: "string 7"},
		{name: "mine, without TTL", setup: leads(none, me, "here", "7", "0"), want: isTerm(7), after: leading(me, "here", "7", "0"), ttl: lease, terms: "string 7"},
		{name: "mine, without a number", setup: leads(lease, me, "here", "x", "0"), want: isRefused("script election_campaign gave the unexpected reply [1 0]"), after: leading(me, "here", "x", "0"), ttl: lease, terms: "string x"},
		// The term of another owner.
		{name: "another's", setup: leads(time.Minute, java, "x", "7", "0"), want: isHeld(java, time.Minute), after: leading(java, "x", "7", "0"), ttl: time.Minute, terms: "string 7"},
		{name: "another of this client", setup: leads(time.Minute, mine2, "", "7", "0"), want: isHeld(mine2, time.Minute), after: leading(mine2, "", "7", "0"), ttl: time.Minute, terms: "string 7"},
		{name: "another's, without TTL", setup: leads(none, java, "x", "7", "0"), want: isHeld(java, -1), after: leading(java, "x", "7", "0"), ttl: none, terms: "string 7"},
		// The number of the last term cannot be read.
		{name: "the counter is no number", setup: numbered("x"), want: isRefused("wrong type"), after: "nothing", ttl: absent, terms: "string x"},
		{name: "the counter is at its end", setup: numbered("9223372036854775807"), want: isRefused("wrong type"), after: "nothing", ttl: absent, terms: "string 9223372036854775807"},
		{name: "the counter is a list", setup: func(t *testing.T, w *world) { w.must(t, "RPUSH", terms, "a") }, want: isRefused("wrong type"),
			after: "nothing", ttl: absent, terms: `list ["a"]`},
	}...))
}

func TestElectionProclaim(t *testing.T) {
	refusal := termAnswer{}
	elections(t, func(ctx context.Context, d driver.Driver) termAnswer {
		ok, err := script.ElectionProclaim(ctx, d, job, me, "there", 2, script.Classic)
		return termAnswer{answer: answered(ok, script.Holder{}, err)}
	}, append(notElections(refusal), []electionRow{
		{name: "mine", setup: leads(time.Minute, me, "here", "7", "1"), want: termAnswer{answer: yes}, after: leading(me, "there", "7", "2"), ttl: time.Minute, terms: "string 7", news: 1},
		{name: "mine, an edition skipped", setup: leads(time.Minute, me, "here", "7", "0"), want: termAnswer{answer: yes}, after: leading(me, "there", "7", "2"), ttl: time.Minute, terms: "string 7", news: 1},
		{name: "mine, changed again since", setup: leads(time.Minute, me, "nowhere", "7", "3"), want: termAnswer{answer: yes}, after: leading(me, "nowhere", "7", "3"), ttl: time.Minute, terms: "string 7"},
		{name: "mine, damaged", setup: leads(time.Minute, me, "here", "7", "x"), want: termAnswer{answer: yes}, after: leading(me, "there", "7", "2"), ttl: time.Minute, terms: "string 7", news: 1},
		{name: "nobody's", setup: nothing, want: refusal, after: "nothing", ttl: absent, terms: "nothing"},
		{name: "another's", setup: leads(time.Minute, java, "x", "7", "0"), want: refusal, after: leading(java, "x", "7", "0"), ttl: time.Minute, terms: "string 7"},
	}...))
}

func TestElectionResign(t *testing.T) {
	refusal := termAnswer{}
	elections(t, func(ctx context.Context, d driver.Driver) termAnswer {
		ok, err := script.ElectionResign(ctx, d, job, me, script.Classic)
		return termAnswer{answer: answered(ok, script.Holder{}, err)}
	}, append(notElections(refusal), []electionRow{
		{name: "mine", setup: leads(time.Minute, me, "here", "7", "1"), want: termAnswer{answer: yes}, after: "nothing", ttl: absent, terms: "string 7", news: 1, vacant: 1, repeat: &no},
		{name: "mine, without TTL", setup: leads(none, me, "here", "7", "1"), want: termAnswer{answer: yes}, after: "nothing", ttl: absent, terms: "string 7", news: 1, vacant: 1, repeat: &no},
		{name: "nobody's", setup: numbered("7"), want: refusal, after: "nothing", ttl: absent, terms: "string 7"},
		{name: "another's", setup: leads(time.Minute, java, "x", "7", "0"), want: refusal, after: leading(java, "x", "7", "0"), ttl: time.Minute, terms: "string 7"},
	}...))
}

func TestElectionRead(t *testing.T) {
	is := func(l script.Leader) termAnswer { return termAnswer{answer: yes, leader: l} }
	elections(t, func(ctx context.Context, d driver.Driver) termAnswer {
		l, ok, err := script.ElectionRead(ctx, d, job)
		return termAnswer{answer: answered(ok, script.Holder{}, err), leader: l}
	}, append(notElections(isRefused("kind")), []electionRow{
		{name: "led", setup: leads(time.Minute, java, "a b\x00c", "7", "2"), want: is(script.Leader{Owner: java, Value: "a b\x00c", Term: 7, Edition: 2, TTL: time.Minute}),
			after: leading(java, "a b\x00c", "7", "2"), ttl: time.Minute, terms: "string 7"},
		{name: "without TTL", setup: leads(none, java, "", "7", "2"), want: is(script.Leader{Owner: java, Term: 7, Edition: 2, TTL: -1}),
			after: leading(java, "", "7", "2"), ttl: none, terms: "string 7"},
		{name: "numbers that are none", setup: leads(time.Minute, java, "v", "x", "y"), want: is(script.Leader{Owner: java, Value: "v", TTL: time.Minute}),
			after: leading(java, "v", "x", "y"), ttl: time.Minute, terms: "string x"},
		{name: "nobody leads", setup: numbered("7"), want: termAnswer{}, after: "nothing", ttl: absent, terms: "string 7"},
	}...))
}

// A term is renewed by the script of all locks; apart from that, other kinds of lock and
// an election do not touch each other's keys.
func TestElectionBesideLocks(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		if got := campaign(t.Context(), w); got.term != 1 {
			t.Fatalf("%+v", got)
		}
		s := steps{w, t}
		s.renew(me, 10*time.Minute, script.Renewed)
		s.renew(java, 10*time.Minute, script.Taken)
		s.find(leading(me, "here", "1", "0"), 10*time.Minute)
		s.acquire(java, lease, refused("kind"))
		for name, take := range map[string]func() (bool, script.Holder, error){
			"read":  func() (bool, script.Holder, error) { return script.RWReadAcquire(t.Context(), w, job, java, "", lease) },
			"write": func() (bool, script.Holder, error) { return script.RWWriteAcquire(t.Context(), w, job, javaW, lease) },
		} {
			if _, _, err := take(); !errors.Is(err, script.ErrKind) {
				t.Errorf("%s lock: %v, want ErrKind", name, err)
			}
		}
		s.find(leading(me, "here", "1", "0"), 10*time.Minute)
	})
}

// The numbers of terms rise, however a term ended.
func TestElectionTermsRise(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for n, end := range []func(){
			func() { _, _ = script.ElectionResign(t.Context(), w, job, me, script.Classic) },
			func() { w.lapse(t, job) },
			func() { w.must(t, "DEL", job) },
			func() {},
		} {
			if got := campaign(t.Context(), w); got.term != int64(n+1) {
				t.Errorf("the term is %+v, want %d", got, n+1)
			}
			end()
		}
		w.wantTTL(t, terms, none)
	})
}

func init() {
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) error{
		"ElectionCampaign": func(ctx context.Context, d driver.Driver) error {
			term, by, err := script.ElectionCampaign(ctx, d, job, me, "", lease, script.Classic)
			return unless(term != 0 || by != (script.Holder{}), err)
		},
		"ElectionProclaim": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.ElectionProclaim(ctx, d, job, me, "", 1, script.Classic)
			return unless(ok, err)
		},
		"ElectionRead": func(ctx context.Context, d driver.Driver) error {
			l, ok, err := script.ElectionRead(ctx, d, job)
			return unless(ok || l != (script.Leader{}), err)
		},
		"ElectionResign": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.ElectionResign(ctx, d, job, me, script.Classic)
			return unless(ok, err)
		},
	} {
		everyCall[name] = call
	}
}

// A term whose number is not above 0, or is more than a script can count, does not begin: nobody could
// use it.
func TestElectionTermsThatCannotBe(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for _, last := range []string{"-5", "9007199254740991"} {
			w.must(t, "SET", terms, last)
			term, _, err := script.ElectionCampaign(t.Context(), w, job, me, "", lease, script.Classic)
			if term != 0 || !errors.Is(err, script.ErrToken) {
				t.Errorf("after the term %s: %d, %v, want ErrToken", last, term, err)
			}
			w.wantDump(t, job, "nothing")
		}
		w.must(t, "SET", terms, "7", "PX", "60000") // by Redisson's expire
		if term, _, err := script.ElectionCampaign(t.Context(), w, job, me, "", lease, script.Classic); term != 8 || err != nil {
			t.Errorf("the term is %d, %v, want 8", term, err)
		}
		w.wantTTL(t, terms, none)
	})
}
