package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/internal/scan"
	"github.com/mortise-go/mortise/memredis"
)

// slowPages is a driver whose server takes its time for each page of keys, most of which have none that match.
type slowPages struct {
	driver.Driver
	each  time.Duration
	empty int
}

func (d slowPages) Scan(ctx context.Context, _ string, fn func(keys []string) error) error {
	for i := range d.empty + 1 {
		select {
		case <-time.After(d.each):
		case <-ctx.Done():
			return driver.ContextError(ctx, driver.Unknown)
		}
		var keys []string
		if i == d.empty {
			keys = []string{"job", "redisson_lock_token:{job}"}
		}
		if err := fn(keys); err != nil {
			return err
		}
	}
	return nil
}

// A listing lasts for as long as the server answers, and no longer than RetryFor when it does not.
func TestListingLastsWhileTheServerAnswers(t *testing.T) {
	const patience = 2 * time.Second
	for each, want := range map[time.Duration]error{patience * 9 / 10: nil, patience * 11 / 10: mortise.ErrUnreachable} {
		t.Run(each.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				if _, _, err := holder.FencedLock("job").Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				c := mortise.New(slowPages{s.Driver(), each, 20}, &mortise.Options{RetryFor: patience})
				defer c.Close()
				var names, tokens []string
				var failed, tfailed error
				for state, err := range c.Locks(t.Context(), "*") {
					if failed = err; err == nil {
						names = append(names, state.Name)
					}
				}
				for use, err := range c.TokenUses(t.Context()) {
					if tfailed = err; err == nil {
						tokens = append(tokens, use.Name)
					}
				}
				if want == nil && (failed != nil || tfailed != nil || len(names) != 1 || len(tokens) == 0) {
					t.Errorf("the locks are %q, %v; the tokens are %q, %v; want those of a lock", names, failed, tokens, tfailed)
				}
				if want != nil && (!errors.Is(failed, want) || !errors.Is(tfailed, want)) {
					t.Errorf("%v, %v, want %v", failed, tfailed, want)
				}
			})
		})
	}
}

// refusing is a driver of servers that list keys, and refuse to run scripts, after a moment.
type refusing struct{ driver.Driver }

func (d refusing) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return d.Driver.(driver.Scanner).Scan(ctx, match, fn)
}

func (refusing) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	const down = "CLUSTERDOWN The cluster is down"
	err := error(&driver.Error{Class: driver.Passing, Err: errors.New(down), Reply: down})
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
		err = driver.ContextError(ctx, driver.Unknown)
	}
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// A listing that ends because the servers refuse says what they said.
func TestListingSaysWhatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		if _, _, err := holder.Lock("job").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := mortise.New(refusing{s.Driver()}, &mortise.Options{RetryFor: 2 * time.Second})
		defer c.Close()
		start, ended := time.Now(), 0
		for state, err := range c.Locks(t.Context(), "*") {
			ended++
			if took := time.Since(start); !errors.Is(err, mortise.ErrUnreachable) || !strings.Contains(err.Error(), "CLUSTERDOWN") || took > 3*time.Second {
				t.Errorf("%+v, %v after %v, want that the cluster is down, after somewhat more than 2s", state, err, took)
			}
		}
		if ended != 1 {
			t.Errorf("it ended %d times", ended)
		}
	})
}

// halfFrozen is the driver of a cluster of two servers. One of them has the records of some clients, and does not answer.
type halfFrozen struct {
	driver.Driver
	frozen func(key string) bool
	asked  *atomic.Int64 // batches that the silent server had a part of
}

func (d halfFrozen) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return d.Driver.(driver.Scanner).Scan(ctx, match, fn)
}

func (d halfFrozen) Shard(key string) string {
	if d.frozen(key) {
		return "frozen:1"
	}
	return "living:1"
}

func (d halfFrozen) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.Batch(ctx, calls)
	silent := false
	for i, call := range calls {
		if len(call.Keys) > 0 && d.frozen(call.Keys[0]) {
			silent = true
			<-ctx.Done()
			results[i] = driver.Result{Err: driver.ContextError(ctx, driver.Unknown)}
		}
	}
	if silent {
		d.asked.Add(1)
	}
	return results
}

func (d halfFrozen) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := d.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

// A frozen server of a cluster keeps nobody from the records of clients that the others have, and is waited for once.
func TestClientsBesideAFrozenServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var frozen atomic.Value // what begins so is on the frozen server
		for _, host := range []string{"silent", "living"} {
			c, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: host}})
			if _, _, err := c.Lock(host).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second) // until the records are written
		isFrozen := func(key string) bool { return strings.HasPrefix(key, frozen.Load().(string)) }
		c := mortise.New(halfFrozen{s.Driver(), isFrozen, new(atomic.Int64)}, &mortise.Options{RetryFor: 5 * time.Second})
		defer c.Close()
		list := func(when string, least, most time.Duration, missing bool, want ...string) (all []mortise.ClientState) {
			t.Helper()
			start := time.Now()
			all, err := c.Clients(t.Context())
			var hosts []string
			for _, one := range all {
				hosts = append(hosts, one.Host)
			}
			slices.Sort(hosts)
			var unlisted *mortise.UnlistedError
			named := errors.As(err, &unlisted) && errors.Is(err, mortise.ErrUnreachable) && slices.Equal(unlisted.Servers, []string{"frozen:1"})
			if took := time.Since(start); !slices.Equal(hosts, want) || missing != named || missing != (err != nil) || took < least || took > most {
				t.Errorf("%s: %q, %v after %v; want %q, after %v to %v, and a server that is missing: %v", when, hosts, err, took, want, least, most, missing)
			}
			return all
		}
		frozen.Store("nothing")
		all := list("at rest", 0, 0, false, "living", "silent")
		silent := all[slices.IndexFunc(all, func(c mortise.ClientState) bool { return c.Host == "silent" })]
		frozen.Store("mortise:client:{" + silent.ID)
		list("with a frozen server", 5*time.Second, 6*time.Second, true, "living")
		list("again", 250*time.Millisecond, 300*time.Millisecond, true, "living")
		frozen.Store("nothing")
		list("after the freeze", 0, 0, false, "living", "silent")
		time.Sleep(10 * time.Second)
		frozen.Store("mortise:clients")
		list("without the index", 5*time.Second, 6*time.Second, true)
		time.Sleep(6 * time.Second)
		list("without the index, again", 250*time.Millisecond, 300*time.Millisecond, true)
		time.Sleep(6 * time.Second) // it may only be slow
		list("without the index, later", 5*time.Second, 6*time.Second, true)
	})
}

// The same with as many records on either server as are read at once, one more, and one.
func TestManyClientsBesideAFrozenServer(t *testing.T) {
	for _, each := range []int{1, 64, 65} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				for i := range 2 * each {
					c, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: fmt.Sprint(i < each)}})
					if _, _, err := c.Lock(fmt.Sprint("job:", i)).Lock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Second) // until the records are written
				frozen := make(map[string]bool)
				plain, _ := open(t, s, nil)
				all, err := plain.Clients(t.Context())
				for _, one := range all {
					frozen["mortise:client:{"+one.ID+"}"] = one.Host == "true"
				}
				c := mortise.New(halfFrozen{s.Driver(), func(key string) bool { return frozen[key] }, new(atomic.Int64)}, &mortise.Options{RetryFor: time.Second})
				defer c.Close()
				living, part := c.Clients(t.Context())
				var unlisted *mortise.UnlistedError
				if err != nil || len(all) != 2*each || len(living) != each || !errors.As(part, &unlisted) {
					t.Errorf("%d clients, %v, and %d of the living server, %v; want %d of each, and that one is missing", len(all), err, len(living), part, each)
				}
			})
		})
	}
}

// A frozen server of a cluster that has the records of holders keeps nobody from the locks of the others: they are listed
// without the names of these holders, and with those of the rest.
func TestListingBesideAFrozenServerWithRecords(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const locks = 300 // more than are read at once
		silent, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: "silent"}})
		living, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: "living"}})
		for i, c := range []*mortise.Client{silent, living} {
			for j := range locks {
				if _, _, err := c.Lock(fmt.Sprintf("job:%d:%d", i, j)).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(2 * time.Second) // until the records are written
		state, err := silent.Inspect(t.Context(), "job:0:0")
		if err != nil {
			t.Fatal(err)
		}
		record := "mortise:client:{" + state.Holders[0].Client.ID
		asked := new(atomic.Int64)
		c := mortise.New(halfFrozen{s.Driver(), func(key string) bool { return strings.HasPrefix(key, record) }, asked}, &mortise.Options{RetryFor: 5 * time.Second})
		defer c.Close()
		start, hosts := time.Now(), map[string]int{}
		for state, err := range c.Locks(t.Context(), "job:*") {
			if err != nil {
				t.Fatal(err)
			}
			host := ""
			if info := state.Holders[0].Client; info != nil {
				host = info.Host
			}
			hosts[host]++
		}
		if took := time.Since(start); took != time.Second || asked.Load() != 1 || hosts["living"] != locks || hosts[""] != locks {
			t.Errorf("after %v, and %d questions to the silent server: %v; want %d of each within a second, after one question", took, asked.Load(), hosts, locks)
		}
	})
}

// halfListed is the driver of a cluster of two servers, of which one freezes: before it lists a key, or after it has listed its own.
type halfListed struct {
	driver.Driver
	after  bool
	frozen *atomic.Bool
}

func (d halfListed) Shard(key string) string {
	if strings.Contains(key, "far") {
		return "frozen:1"
	}
	return "living:1"
}

func (d halfListed) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return scan.All(ctx, []string{"frozen:1", "living:1"}, func(ctx context.Context, server string, fn func([]string) error) error {
		if server == "frozen:1" && !d.after {
			<-ctx.Done()
			return driver.ContextError(ctx, driver.Unknown)
		}
		if server == "living:1" {
			time.Sleep(100 * time.Millisecond) // the other is first
		}
		return d.Driver.(driver.Scanner).Scan(ctx, match, func(keys []string) error {
			d.frozen.Store(true)
			return fn(slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return d.Shard(key) != server }))
		})
	}, fn)
}

func (d halfListed) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.Batch(ctx, calls)
	for i, call := range calls {
		if text := fmt.Sprint(call.Keys, call.Args); d.frozen.Load() && strings.Contains(text, "far") {
			<-ctx.Done()
			results[i] = driver.Result{Err: driver.ContextError(ctx, driver.Unknown)}
		}
	}
	return results
}

func (d halfListed) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := d.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

// A server of a cluster that freezes keeps nobody from the locks and the tokens that the others have, be these counters or fences, also
// if it has begun to answer. The listing ends with its name.
func TestListingBesideAServerThatFreezes(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after its keys were listed: %v", after), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				guard := fencing.NewGuard(s.Driver())
				defer guard.Close()
				holder, _ := open(t, s, nil)
				for _, name := range []string{"far", "near"} {
					check(t, guard.Admit(t.Context(), name+":resource", 5))
					if _, _, err := holder.FencedLock(name + ":job").Lock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				open := func() *mortise.Client {
					return mortise.New(halfListed{s.Driver(), after, new(atomic.Bool)}, &mortise.Options{RetryFor: time.Second, Identity: mortise.Identity{Hide: true}})
				}
				wantRest := func(what string, names []string, failed error, want ...string) {
					t.Helper()
					var unlisted *mortise.UnlistedError
					if slices.Sort(names); !slices.Equal(names, want) || !errors.As(failed, &unlisted) || !slices.Equal(unlisted.Servers, []string{"frozen:1"}) || !errors.Is(failed, mortise.ErrUnreachable) {
						t.Errorf("the %s are %q, %v; want %q, and that frozen:1 is missing", what, names, failed, want)
					}
				}
				var names []string
				var failed error
				c := open()
				defer c.Close()
				for state, err := range c.Locks(t.Context(), "*") {
					if failed = err; err == nil {
						names = append(names, state.Name)
					}
				}
				wantRest("locks", names, failed, "near:job")
				names = nil
				c2 := open()
				defer c2.Close()
				for use, err := range c2.TokenUses(t.Context()) {
					if failed = err; err == nil {
						names = append(names, use.Name)
					}
				}
				wantRest("tokens", names, failed, "near:job", "near:resource")
			})
		})
	}
}

// slowCluster is the driver of a cluster of one server that takes its time for each batch.
type slowCluster struct {
	driver.Driver
	each time.Duration
}

func (slowCluster) Shard(string) string { return "slow:1" }

func (d slowCluster) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	select {
	case <-time.After(d.each):
		return d.Driver.Batch(ctx, calls)
	case <-ctx.Done():
	}
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = driver.ContextError(ctx, driver.Unknown)
	}
	return results
}

// Somebody who has no time for the name of a holder takes it from nobody else: the server is slow, and not silent.
func TestNamesAfterSomebodyInAHurry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: "api-7"}})
		if _, _, err := holder.Lock("job").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // until the record is written
		const each = 300 * time.Millisecond
		c := mortise.New(slowCluster{s.Driver(), each}, nil)
		defer c.Close()
		for within, want := range map[time.Duration]bool{each * 3 / 2: false, each * 5 / 2: true} { // a batch for the lock, and one for the name
			hurried, cancel := context.WithTimeout(t.Context(), within)
			state, err := c.Inspect(hurried, "job")
			cancel()
			if err != nil || (state.Holders[0].Client != nil) != want {
				t.Errorf("within %v: %+v, %v", within, state.Holders, err)
			}
			if state, err = c.Inspect(t.Context(), "job"); err != nil || state.Holders[0].Client == nil || state.Holders[0].Client.Host != "api-7" {
				t.Errorf("after one within %v: %+v, %v", within, state.Holders, err)
			}
		}
	})
}
