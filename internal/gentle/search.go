package gentle

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

//go:embed search.lua
var searchText string

var (
	search = driver.NewScript("search", searchText)
	clock  = driver.NewScript("clock", "return redis.call('time')")
)

// Time returns the time of Redis' clock, and how long the question took.
func Time(ctx context.Context, d driver.Driver) (now time.Time, took time.Duration, err error) {
	start := time.Now()
	call := driver.Call{Script: clock}
	if t, err := d.Topology(ctx); err == nil && t.Cluster {
		call.Keys = []string{anyKey} // always the same server
	}
	v, err := d.Eval(ctx, call)
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

// anyKey is the beginning of keys that choose a server of a cluster. They are not used. Elsewhere scripts
// get none: the user may have no right to such a key.
const anyKey = "mortise:watch"

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
	for _, key := range s.shards(ctx) {
		if err := s.shard(ctx, key, match, fn); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends a search that has looked at as many keys as it should.
var errEnough = errors.New("enough keys")

// shards returns a key for each server that is to be searched; an empty one if there is only one server.
func (s *Searcher) shards(ctx context.Context) []string {
	if t, err := s.Topology(ctx); err != nil || !t.Cluster {
		return []string{""}
	}
	s.learn(ctx)
	const tries = 20_000 // more than there are slots
	known := make(map[string]bool)
	var keys []string
	for i := range tries {
		key := anyKey + ":{" + strconv.Itoa(i) + "}"
		if shard := s.Shard(key); !known[shard] {
			known[shard] = true
			keys = append(keys, key)
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
			return errEnough
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
