package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// link is a wait of a client under its own holds.
type link struct {
	client *mortise.ClientState
	wait   *mortise.ClientWait
}

// cyclesOf returns the cycles in which clients wait for each other, according to their records. The records were read one
// after the other, so a cycle may never have been there.
func cyclesOf(c *census) (cycles [][]link) {
	under := make(map[string][]link) // the waits under a hold, by its owner
	for i := range c.clients {
		client := &c.clients[i]
		for j := range client.Waits {
			for _, owner := range client.Waits[j].Under {
				if ownedBy(owner, client.ID, "") {
					under[owner] = append(under[owner], link{client, &client.Waits[j]})
				}
			}
		}
	}
	found := make(map[*mortise.ClientWait]bool)
	for i := range c.clients {
		client := &c.clients[i]
		for j := range client.Waits {
			first := link{client, &client.Waits[j]}
			if found[first.wait] {
				continue
			}
			cycle := follow(c, under, first)
			for _, l := range cycle {
				found[l.wait] = true
			}
			if cycle != nil {
				cycles = append(cycles, cycle)
			}
		}
	}
	return cycles
}

// follow returns the cycle that first is part of, which it begins with, or nil.
func follow(c *census, under map[string][]link, first link) (cycle []link) {
	passed := make(map[*mortise.ClientWait]bool)
	for at := first; !passed[at.wait]; {
		passed[at.wait] = true
		cycle = append(cycle, at)
		by := c.holds[at.wait.For]
		next := under[at.wait.For]
		if at.wait.For == "" || by.client == nil || by.Lock != at.wait.Lock || len(next) != 1 {
			return nil // the holder may get on
		}
		if at = next[0]; at.wait == first.wait {
			return cycle
		}
	}
	return nil // it leads into a cycle that first is not part of
}

// cycleKey names the waits of a cycle, whichever it begins with.
func cycleKey(cycle []link) string {
	var keys []string
	for _, l := range cycle {
		keys = append(keys, strconv.Quote(l.client.ID)+" "+strconv.FormatInt(l.wait.Since.UnixMilli(), 10)+" "+strconv.Quote(l.wait.Lock))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// A client that waits under a hold renews its record four times a second. After twice that time a cycle that is still
// there was there.
const cyclePause = 600 * time.Millisecond

// certainCycles returns the cycles of a census that are still there a moment later. If what is there then could not be read, or only a
// part of it, the error says why, and open are the cycles of the census that were not seen again.
func certainCycles(ctx context.Context, client *mortise.Client, c *census) (list, open []*mortise.DeadlockError, err error) {
	first := cyclesOf(c)
	if len(first) == 0 {
		return nil, nil, nil
	}
	again := make(map[string]bool)
	if !sleep(ctx, cyclePause) {
		err = ctx.Err()
	} else if c, err = takeCensus(ctx, client); err == nil || isPart(err) {
		for _, cycle := range cyclesOf(c) {
			again[cycleKey(cycle)] = true
		}
	}
	for _, cycle := range first {
		switch {
		case again[cycleKey(cycle)]:
			list = append(list, deadlockOf(cycle))
		case err != nil:
			open = append(open, deadlockOf(cycle))
		}
	}
	return list, open, err
}

// deadlockOf returns a cycle as the library names one.
func deadlockOf(cycle []link) *mortise.DeadlockError {
	d := new(mortise.DeadlockError)
	for _, l := range cycle {
		d.Waits = append(d.Waits, mortise.DeadlockWait{Lock: l.wait.Lock, Client: l.client.ClientInfo, Since: l.wait.Since})
	}
	return d
}
