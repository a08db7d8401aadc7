package gentle

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
)

//go:embed search.lua
var searchText string

var (
	search = driver.NewScript("search", searchText)
	clock  = driver.NewScript("clock", "return redis.call('time')")
)

// Clock asks Redis for its time: in a cluster always the same server, until that does not answer.
type Clock struct {
	// Silent, if not nil, is called with a server of a cluster that has not reported the time: then another one is asked.
	Silent func(server string, err error)

	driver driver.Driver
	nth    int // the key that chooses the server
}

// NewClock returns a clock that asks by d.
func NewClock(d driver.Driver) *Clock { return &Clock{driver: d} }

// answerWithin is how long one of several servers is waited for.
const answerWithin = time.Second

// Time returns the time of Redis' clock, and how long the question took.
func (c *Clock) Time(ctx context.Context) (now time.Time, took time.Duration, err error) {
	t, err := c.driver.Topology(ctx)
	if err != nil || !t.Cluster {
		return c.ask(ctx)
	}
	key := chooses(c.nth)
	if now, took, err = c.ask(ctx, key); err == nil || ctx.Err() != nil {
		return now, took, err
	}
	for range mostServers {
		if c.nth++; c.driver.Shard(chooses(c.nth)) != c.driver.Shard(key) {
			if c.Silent != nil {
				c.Silent(c.driver.Shard(key), err)
			}
			return c.ask(ctx, chooses(c.nth))
		}
	}
	return now, took, err
}

// ask asks the server of the keys, if there are any one of several.
func (c *Clock) ask(ctx context.Context, keys ...string) (now time.Time, took time.Duration, err error) {
	start := time.Now()
	if len(keys) > 0 {
		within, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		ctx = within
	}
	v, err := c.driver.Eval(ctx, driver.Call{Script: clock, Keys: keys})
	if err != nil {
		return time.Time{}, 0, err
	}
	seconds, err := strconv.ParseInt(v.At(0).Str(), 10, 64)
	if err != nil {
		return time.Time{}, 0, &driver.Error{Class: driver.Other, Err: err}
	}
	micros, err := strconv.ParseInt(v.At(1).Str(), 10, 64)
	if err != nil {
		return time.Time{}, 0, &driver.Error{Class: driver.Other, Err: err}
	}
	return time.Unix(seconds, micros*1000), time.Since(start), nil
}

// Answers reports whether a server of a cluster answers within a moment, or is none of its servers any more.
func (c *Clock) Answers(ctx context.Context, server string) bool {
	for n := range mostServers {
		if key := chooses(n); c.driver.Shard(key) == server {
			within, cancel := context.WithTimeout(ctx, answerWithin/4)
			defer cancel()
			_, _, err := c.ask(within, key)
			return err == nil
		}
	}
	return true
}

// chooses returns the n-th key that chooses a server of a cluster. It is not used. Elsewhere scripts get none: the user may have no
// right to such a key.
func chooses(n int) string { return "mortise:watch:{" + strconv.Itoa(n) + "}" }

// mostServers is how many keys are tried to find a server: more than there are slots.
const mostServers = 20_000

// Searcher is a Driver that lists only keys that may be locks, slowly: the server finds them, page by
// page, with pauses that are longer than the pages.
type Searcher struct {
	Driver
	// Pages bounds how many pages of keys are looked at; the meter of Driver all else.
	Pages *Meter
	// Share is the part of a server's time that a search may take: above 0, below 1.
	Share float64
	// Find is the script that looks at a page of keys, with the contract of search.lua; nil means that one.
	Find *driver.Script
	// Most is how many keys to look at, at most, about; 0 means all.
	Most int64

	mu   sync.Mutex // guards the fields below
	trip time.Duration
	page int   // how many keys to look at, at once
	keys int64 // that were looked at in this search, about
}

const (
	// leastCost is the time that a page is taken to cost at least.
	leastCost = 100 * time.Microsecond
	// longPage and shortPage are when the next pages are made shorter and longer.
	longPage, shortPage = 2 * time.Millisecond, 500 * time.Microsecond
	// A page has so many keys.
	firstPage, leastPage, mostPage = 200, 20, 500
)

// Trip notes how long a question to Redis took that costs the server next to nothing.
func (s *Searcher) Trip(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trip == 0 || d < s.trip {
		s.trip = d
		return
	}
	s.trip += (d - s.trip) / 64 // the way may have become longer
}

// Keys returns how many keys the search has looked at, about.
func (s *Searcher) Keys() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// Scan implements driver.Scanner.
func (s *Searcher) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	s.mu.Lock()
	s.keys = 0
	s.mu.Unlock()
	servers := s.shards(ctx)
	if len(servers) > 1 {
		delete(servers, "") // of slots that no server has
	}
	one := func(ctx context.Context, server string, fn func([]string) error) error {
		return s.shard(ctx, servers[server], match, fn)
	}
	if key, single := servers[""]; single {
		return s.shard(ctx, key, match, fn)
	}
	return scan.All(ctx, slices.Sorted(maps.Keys(servers)), one, fn)
}

// shards returns a key for each server that is to be searched; an empty one if there is only one server.
func (s *Searcher) shards(ctx context.Context) map[string]string {
	if t, err := s.Topology(ctx); err != nil || !t.Cluster {
		return map[string]string{"": ""}
	}
	s.learn(ctx)
	keys := make(map[string]string)
	for i := range mostServers {
		key := chooses(i)
		if shard := s.Shard(key); keys[shard] == "" {
			keys[shard] = key
		}
	}
	return keys
}

// learn makes the driver of a cluster know which master serves which keys: listing keys does.
func (s *Searcher) learn(ctx context.Context) {
	if scanner, ok := s.Driver.Driver.(driver.Scanner); ok && s.Pages.wait(ctx, 1) == nil {
		_ = scanner.Scan(ctx, "*", func([]string) error { return errPage }) // one that fails leaves servers out, until the next search
	}
}

// errPage ends a listing of keys after a page.
var errPage = errors.New("one page")

// shard searches the server of a key.
func (s *Searcher) shard(ctx context.Context, key, match string, fn func([]string) error) error {
	find := s.Find
	if find == nil {
		find = search
	}
	for cursor := "0"; ; {
		if err := s.Pages.wait(ctx, 1); err != nil {
			return err
		}
		s.mu.Lock()
		if s.page == 0 {
			s.page = firstPage
		}
		page := s.page
		s.mu.Unlock()
		start := time.Now()
		call := driver.Call{Script: find, Args: []string{cursor, match, strconv.Itoa(page)}}
		if key != "" {
			call.Keys = []string{key}
		}
		v, err := s.Driver.Driver.Eval(ctx, call)
		if err != nil {
			return err
		}
		pause := s.took(time.Since(start), page)
		var found []string
		for i := 1; i < v.Len(); i++ {
			found = append(found, v.At(i).Str())
		}
		if err := fn(found); err != nil {
			return err
		}
		if cursor = v.At(0).Str(); cursor == "0" || cursor == "" {
			return nil
		}
		if s.Most > 0 && s.Keys() >= s.Most {
			return nil
		}
		if err := Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// took notes how long a page of so many keys took, and returns how long to pause after it.
func (s *Searcher) took(d time.Duration, page int) (pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys += int64(page)
	cost := max(0, d-s.trip)
	switch {
	case cost > longPage:
		s.page = max(leastPage, s.page/2)
	case cost < shortPage:
		s.page = min(mostPage, s.page+s.page/4)
	}
	return time.Duration(float64(max(leastCost, cost)) * (1/s.Share - 1))
}
