package torture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/torture"
)

// mix is what the clients of a round contend for. One of the groups of loads has that kind, if it
// is not empty.
func (p plan) mix(random func(int) int) []torture.Load {
	if p.kind == "several" {
		name := []string{"quorum", "{quorum}", "a b"}[random(3)]
		return []torture.Load{{Kind: "redlock", Name: name}, {Kind: "redlock", Name: name}, {Kind: "redlock", Name: "other"}}
	}
	names := []string{"job", "order:42", "a b", "{order}:7", "ünï", "x:{y}:z"}
	name := names[random(len(names))]
	var loads []torture.Load
	for _, kind := range []string{"lock", "fair", "spin"} { // they are one lock
		loads = append(loads, torture.Load{Kind: kind, Name: name})
	}
	loads = append(loads,
		torture.Load{Kind: "fenced", Name: "fenced:" + fmt.Sprint(random(100)), Fenced: true},
		torture.Load{Kind: "fenced", Name: "{fenced}", Fenced: true},
	)
	others := p.groups()
	for i := range 2 {
		at := slices.IndexFunc(others, func(l []torture.Load) bool { return l[0].Kind == p.load })
		if i > 0 || at < 0 {
			at = random(len(others))
		}
		loads = append(loads, others[at]...)
		others = slices.Delete(others, at, at+1)
	}
	return loads
}

// groups are loads that belong together.
func (p plan) groups() [][]torture.Load {
	all := [][]torture.Load{
		{{Kind: "lock", Name: "twin"}, {Kind: "lock", Name: "{twin}"}, {Kind: "fair", Name: "{twin}"}},
		{{Kind: "read", Name: "book"}, {Kind: "read", Name: "book"}, {Kind: "write", Name: "book"}},
		{{Kind: "group", Name: "seats", Names: []string{"a", "b"}}, {Kind: "group", Name: "seats", Names: []string{"b", "c"}}, {Kind: "group", Name: "seats", Names: []string{"d"}}},
		{{Kind: "multi", Names: []string{"left", "right"}}, {Kind: "multi", Names: []string{"right", "left"}}, {Kind: "lock", Name: "left"}},
		{{Kind: "permit", Name: "permits", Units: 2}},
		{{Kind: "election", Name: "leader", Fenced: true}},
		{{Kind: "barrier", Name: "fence", Units: 2, Meets: true}, {Kind: "barrier", Name: "fence", Units: 2, Meets: true}},
		{{Kind: "double", Name: "hall", Units: 2, Meets: true}, {Kind: "double", Name: "hall", Units: 2, Meets: true}},
	}
	if !p.nemesis.costsCounts {
		all = append(all,
			[]torture.Load{{Kind: "semaphore", Name: "places", Units: 2}},
			[]torture.Load{{Kind: "latch", Name: "gate", Units: 2, Meets: true}, {Kind: "latch", Name: "gate", Units: 2, Meets: true}},
		)
	}
	return all
}

// accounts checks that all permits are there again, and deletes what no lease ends: semaphores, and
// latches that never opened.
func (r *round) accounts() {
	for _, l := range r.loads {
		switch l.Kind {
		case "permit":
			r.permits(l)
		case "semaphore":
			r.counts(l)
		case "fair":
			r.useOnce(l)
		}
	}
	r.mu.Lock()
	last := r.tally.latches
	r.mu.Unlock()
	for i := range last + 1 {
		name := fmt.Sprintf("gate:%d", i)
		s := r.serving(r.t, name)
		if left, err := s.Do("GET", name); err == nil && left != nil && left != "1" && left != "2" {
			r.blame("latch %s has the count %v", name, left)
		}
		_, _ = s.Do("DEL", name)
	}
}

// useOnce acquires a fair lock once more. If the last waiter was killed, its place stays in the queue until
// somebody uses the lock.
func (r *round) useOnce(l torture.Load) {
	addrs := r.addrs()
	if r.topology == "single" { // a replica may have been promoted
		addrs = []string{r.master.Addr()}
	}
	d, end, err := dial(torture.Config{Driver: "goredis", Topology: r.topology, Addrs: addrs})
	if err != nil {
		r.blame("no client for %s: %v", l.Name, err)
		return
	}
	defer end()
	c := mortise.New(d, &mortise.Options{TTL: r.ttl})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), guard(served))
	defer cancel()
	if err := c.FairLock(l.Name).Do(ctx, func(context.Context) error { return nil }); err != nil {
		r.blame("after all, %s cannot be acquired: %v", l.Name, err)
	}
}

// counts checks that as many permits of a semaphore are there as it had, but for those whose
// release was in doubt, and deletes it.
func (r *round) counts(l torture.Load) {
	s := r.serving(r.t, l.Name)
	r.mu.Lock()
	unsure := r.unsure[l.Name]
	r.mu.Unlock()
	left := ""
	begin := time.Now()
	err := r.eventually(forgot, "all were released", func() error {
		left = s.Str(r.t, "GET", l.Name)
		for n := l.Units - unsure; n <= l.Units; n++ {
			if left == fmt.Sprint(n) {
				return nil
			}
		}
		if left == "" && time.Since(begin) > forgot {
			return nil
		}
		return errNotYet
	})
	if err != nil && left != "" {
		r.blame("semaphore %s has %s permits after all were released, of %d; %d releases were in doubt", l.Name, left, l.Units, unsure)
	}
	_, _ = s.Do("DEL", l.Name)
}
