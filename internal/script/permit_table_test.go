package script_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Ids of permits, as hex digits. The first bytes cannot be part of a text.
const (
	one   = "00ff0a0d800000000000000000000001"
	two   = "00ff0a0d800000000000000000000002"
	three = "00ff0a0d800000000000000000000003"
	alien = "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0" // of another client
)

// endless is Redisson's end of a permit without limit.
const endless = "922337203685477"

var permits = script.Permits{Name: job}

// permitWorld is a permit semaphore in a test: the available permits, and those in use.
type permitWorld struct {
	*world
	t *testing.T
}

func (s permitWorld) now() int64 { return fair{world: s.world, t: s.t}.now() }

func (s permitWorld) set(value string) permitWorld {
	s.must(s.t, "SET", job, value)
	return s
}

// taken adds permits that end after a while, as Redisson would.
func (s permitWorld) taken(left time.Duration, ids ...string) permitWorld {
	s.t.Helper()
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.put(fmt.Sprint(s.now()+left.Milliseconds()), string(raw))
	}
	return s
}

// forever adds a permit without an end.
func (s permitWorld) forever(id string) permitWorld {
	raw, _ := hex.DecodeString(id)
	return s.put(endless, string(raw))
}

func (s permitWorld) put(score, member string) permitWorld {
	s.t.Helper()
	s.must(s.t, "ZADD", keyspace.PermitExpiries(job), score, member)
	return s
}

// claim adds a waiter behind the present ones.
func (s permitWorld) claim(number int, id string) permitWorld {
	key := keyspace.Claims(job)
	order := 1 + s.must(s.t, "HLEN", key).Int()
	s.must(s.t, "HSET", key, id, fmt.Sprint(order, " ", number, " ", s.now()+2900))
	s.must(s.t, "PEXPIRE", key, "2900")
	return s
}

// String shows all of it: the number available; each permit and the rest of its lease,
// in whole minutes where time is real; the claim.
func (s permitWorld) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(s.dump(s.t, job), "string "))
	if kind := s.must(s.t, "TYPE", keyspace.PermitExpiries(job)).Str(); kind != "zset" && kind != "none" {
		return b.String() + " and a " + kind
	}
	v := s.must(s.t, "ZRANGE", keyspace.PermitExpiries(job), "0", "-1", "WITHSCORES")
	now := s.now()
	var out []string
	for i := 0; i < v.Len(); i += 2 {
		id := v.At(i).Str()
		if len(id) == 16 {
			id = strings.TrimPrefix(hex.EncodeToString([]byte(id)), one[:31])
		} else {
			id = strconv.Quote(id)
		}
		left := "forever"
		if score := v.At(i + 1).Str(); score != endless {
			end, err := strconv.ParseInt(score, 10, 64)
			if err != nil {
				s.t.Fatalf("the score of %s is no integer: %v", id, err)
			}
			if left = "past"; end > now {
				left = s.minutes(time.Duration(end-now) * time.Millisecond).String()
			}
		}
		out = append(out, " "+id+":"+left)
	}
	slices.Sort(out)
	b.WriteString(strings.Join(out, ""))
	if claims := s.must(s.t, "HGETALL", keyspace.Claims(job)); claims.Len() > 0 {
		if left := s.ttl(s.t, keyspace.Claims(job)); left <= 0 || left > 3*time.Second {
			s.t.Errorf("the claims last for another %v", left)
		}
		var all []string
		for i := 0; i < claims.Len(); i += 2 {
			order, rest, _ := strings.Cut(claims.At(i+1).Str(), " ")
			number, _, _ := strings.Cut(rest, " ")
			all = append(all, fmt.Sprint(" ", order, "st of ", strings.TrimPrefix(claims.At(i).Str(), one[:31]), " for ", number))
		}
		slices.Sort(all)
		b.WriteString(" claims:" + strings.Join(all, ""))
	}
	if left := s.ttl(s.t, keyspace.Operation(job, op)); left == none {
		s.t.Error("the record of the operation has no TTL")
	}
	return b.String()
}

// minutes makes durations in real time comparable.
func (s permitWorld) minutes(d time.Duration) time.Duration {
	if s.real && d > 0 {
		return (d + time.Minute - 1).Truncate(time.Minute)
	}
	return d
}

func permitAnswer(s permitWorld, ok any, why script.PermitRefusal, err error) string {
	switch {
	case errors.Is(err, script.ErrNumber):
		return "no semaphore"
	case errors.Is(err, script.ErrTooMany):
		return "too many"
	case err != nil:
		return classOf(err)
	case why != (script.PermitRefusal{}):
		left := ""
		if why.Left != 0 {
			left = fmt.Sprintf(" less %d", why.Left)
		}
		if why.Unset {
			left += ", unset"
		}
		return fmt.Sprintf("%d available%s, next in %v", why.Available, left, s.minutes(why.Next))
	}
	return fmt.Sprint(ok)
}

// permitRow is one case of a table.
type permitRow struct {
	name     string
	setup    func(s permitWorld)
	want     string
	after    string
	messages []string
	repeat   string // the reply to the same call once more, if different
}

// permitTable runs every row with both servers, twice and with the first reply
// lost, as table does.
func permitTable(t *testing.T, call func(s permitWorld, ctx context.Context, d driver.Driver) string, rows []permitRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := permitWorld{w, t}
				sub := w.listen(t, keyspace.SemaphoreChannel(job), false)
				try := func(d driver.Driver, want string) {
					t.Helper()
					if got := call(s, t.Context(), d); got != want {
						t.Errorf("the answer is %q, want %q", got, want)
					}
				}
				look := func(messages ...string) {
					t.Helper()
					if got := s.String(); got != r.after {
						t.Errorf("there are %q, want %q", got, r.after)
					}
					sub.want(t, messages...)
				}
				repeat := cmp.Or(r.repeat, r.want)
				r.setup(s)
				try(w, r.want)
				look(r.messages...)
				try(w, repeat)
				look()

				w.must(t, "DEL", job, keyspace.PermitExpiries(job), keyspace.Claims(job), keyspace.Operation(job, op))
				r.setup(s)
				try(lossy{w}, "unknown")
				try(w, repeat)
				look(r.messages...)
			})
		})
	}
}

// Keys that no script of a permit semaphore may touch.
func foreignPermits() []permitRow {
	return []permitRow{
		{name: "a lock", setup: func(s permitWorld) { s.hold(s.t, job, lease, java, "1") }, want: "wrong type", after: "hash " + java + "=1"},
		{name: "a list", setup: func(s permitWorld) { s.must(s.t, "RPUSH", job, "a") }, want: "wrong type", after: `list ["a"]`},
		{name: "text", setup: func(s permitWorld) { s.set("five") }, want: "no semaphore", after: "five"},
		{name: "a fraction", setup: func(s permitWorld) { s.set("1.5") }, want: "no semaphore", after: "1.5"},
		{name: "a leading zero", setup: func(s permitWorld) { s.set("03") }, want: "no semaphore", after: "03"},
		{name: "minus zero", setup: func(s permitWorld) { s.set("-0") }, want: "no semaphore", after: "-0"},
		{name: "empty text", setup: func(s permitWorld) { s.set("") }, want: "no semaphore", after: ""},
		{name: "more than can be counted", setup: func(s permitWorld) { s.set("9999999999999999") }, want: "no semaphore", after: "9999999999999999"},
		{name: "another's zset", setup: func(s permitWorld) { s.set("3").must(s.t, "RPUSH", keyspace.PermitExpiries(job), "a") },
			want: "wrong type", after: "3 and a list"},
	}
}
