package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/gentle"
	"github.com/mortise-go/mortise/internal/keyspace"
)

//go:embed lua/search.lua
var searchText string

var search = driver.NewScript("doctor_search", searchText)

const (
	// searchLoad is how many commands in a second the search may send, and searchShare the part of a
	// server's time that it may take.
	searchLoad  = 500
	searchShare = 0.25
	// mostFound is how many suspects of one sort are looked at closer.
	mostFound = 1000
	// longUnused is when tokens are said to be used by nobody.
	longUnused = 30 * 24 * time.Hour
	// manyKeys is when a search of all keys is worth mentioning.
	manyKeys = 1_000_000
)

// suspects are keys that a search has found.
type suspects struct {
	locks, queues, permits []string
	unused                 []string // names whose tokens nobody uses
	undated                int      // counters of which Redis does not know for how long they were not used
	more                   bool     // there were more than mostFound of one sort
}

// searchKeys searches keys for what is wrong with them.
func (e *exam) searchKeys(ctx context.Context) {
	const id = "keys"
	e.count(ctx)
	_, trip, err := gentle.NewClock(e.d).Time(ctx)
	if err != nil {
		trip = 0 // the pauses are longer then
	}
	s := &gentle.Searcher{
		Driver: gentle.Driver{Driver: e.d, Meter: gentle.NewMeter(searchLoad)}, Pages: gentle.NewMeter(searchLoad), Share: searchShare,
		Find: search, Most: int64(max(0, e.o.Keys)),
	}
	s.Trip(trip)
	found := &suspects{}
	start := time.Now()
	err = s.Scan(ctx, "*"+literal.Replace(e.o.Prefix)+"*", func(page []string) error {
		for _, hit := range page {
			found.note(hit, e.o.Prefix)
		}
		return nil
	})
	e.report.Looked = s.Keys()
	if whole := err == nil && (s.Most == 0 || s.Keys() < s.Most); e.report.Keys >= 0 && (whole || e.report.Looked > e.report.Keys) {
		e.report.Looked = e.report.Keys // a page has about as many keys as it should
	}
	if err != nil {
		e.add(e.unknown(id, GroupKeys, err, "scan", "type", "pttl"))
		if ctx.Err() != nil || s.Keys() == 0 {
			return
		}
	} else {
		e.add(e.searched(time.Since(start), found.more))
	}
	e.locks(ctx, found.locks)
	e.queues(ctx, found.queues)
	e.permits(ctx, found.permits)
	e.tokens(found)
}

// note sorts what was found.
func (f *suspects) note(hit, prefix string) {
	what, key := hit[0], hit[1:]
	add := func(list *[]string) {
		if len(*list) == mostFound {
			f.more = true
			return
		}
		*list = append(*list, key)
	}
	switch what {
	case 'h':
		if strings.HasPrefix(key, prefix) {
			add(&f.locks)
		}
	case 'q':
		add(&f.queues)
	case 'p':
		add(&f.permits)
	case 'u':
		f.undated++
	case 't':
		idle, name, _ := strings.Cut(key, " ")
		seconds, _ := strconv.ParseInt(idle, 10, 64)
		names, _ := keyspace.CountedNames(name)
		if seconds < int64(longUnused/time.Second) || len(names) == 0 || !strings.HasPrefix(names[0], prefix) {
			return
		}
		key = strings.TrimPrefix(names[0], prefix)
		add(&f.unused)
	}
}

// count asks how many keys there are.
func (e *exam) count(ctx context.Context) {
	total := int64(0)
	for _, s := range e.servers {
		if s.err == nil && !s.master() {
			continue
		}
		v, err := e.command(ctx, s.addr, "DBSIZE")
		if err != nil {
			return
		}
		total += v.Int()
	}
	e.report.Keys = total
}

// searched returns the finding about the search itself.
func (e *exam) searched(took time.Duration, more bool) Finding {
	f := Finding{ID: "keys", Group: GroupKeys, Severity: OK}
	of := ""
	if e.report.Keys >= 0 {
		of = fmt.Sprintf(" of %d", e.report.Keys)
	}
	f.Found = fmt.Sprintf("%d%s keys were looked at, in %s", e.report.Looked, of, short(took))
	if e.report.Keys > e.report.Looked {
		f.Severity = Info
		f.Do, f.Command = "What is wrong with the others is not known. Look at all of them.", e.mortise("doctor --keys -1")
	}
	if e.report.Keys > manyKeys && e.report.Looked > 0 {
		all := time.Duration(float64(took) * float64(e.report.Keys) / float64(e.report.Looked))
		f.Found += fmt.Sprintf("; a search of all keys, as by mortise ls, takes about %s", short(all))
	}
	if more {
		f.Found += fmt.Sprintf("; there was more than %d of something to look at, and the rest was left out", mostFound)
	}
	return f
}

// tokens reports tokens that nobody uses.
func (e *exam) tokens(found *suspects) {
	f := Finding{ID: "tokens-unused", Group: GroupKeys, Severity: OK, Found: "all fencing tokens were used in the last 30 days, or there are none"}
	switch {
	case len(found.unused) > 0:
		f.Severity = Info
		f.Found = fmt.Sprintf("names whose fencing tokens were not used for 30 days, and stay forever: %d, %s", len(found.unused), listed(found.unused))
		f.Do, f.Command = "Let them expire, if no process can be as old as that.", e.mortise("tokens --idle 720h")
		f = f.about(found.unused)
	case found.undated > 0:
		f.Severity = Unknown
		f.Found = fmt.Sprintf("counters of tokens of which it is not known for how long they were not used: %d. The user has no right to it, or the policy of eviction is an LFU one", found.undated)
		f.Do = "Allow it, or examine with another user."
		f.Command = e.setuser("+object|idletime")
	}
	e.add(f)
}

// userName returns the name of the user, or what stands for it.
func (e *exam) userName() string {
	return cmp.Or(e.user, e.o.User, "USER")
}
