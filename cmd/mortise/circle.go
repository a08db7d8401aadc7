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

// circlesOf returns the circles in which clients wait for each other, as their records tell. The records were read one
// after the other, so a circle may never have been there.
func circlesOf(c *census) (circles [][]link) {
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
			circle := follow(c, under, first)
			for _, l := range circle {
				found[l.wait] = true
			}
			if circle != nil {
				circles = append(circles, circle)
			}
		}
	}
	return circles
}

// follow returns the circle that first is part of, which it begins with, or nil.
func follow(c *census, under map[string][]link, first link) (circle []link) {
	passed := make(map[*mortise.ClientWait]bool)
	for at := first; !passed[at.wait]; {
		passed[at.wait] = true
		circle = append(circle, at)
		by := c.holds[at.wait.For]
		next := under[at.wait.For]
		if at.wait.For == "" || by.client == nil || by.Lock != at.wait.Lock || len(next) != 1 {
			return nil // the holder may get on
		}
		if at = next[0]; at.wait == first.wait {
			return circle
		}
	}
	return nil // it leads into a circle that first is not part of
}

// circleKey names the waits of a circle, whichever it begins with.
func circleKey(circle []link) string {
	var keys []string
	for _, l := range circle {
		keys = append(keys, strconv.Quote(l.client.ID)+" "+strconv.FormatInt(l.wait.Since.UnixMilli(), 10)+" "+strconv.Quote(l.wait.Lock))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// A client that waits under a hold renews its record four times a second. After twice that time a circle that is still
// there was there.
const circlePause = 600 * time.Millisecond

// certainCircles returns the circles of a census that are still there a moment later.
func certainCircles(ctx context.Context, client *mortise.Client, c *census) (list []*mortise.DeadlockError, err error) {
	first := circlesOf(c)
	if len(first) == 0 || !sleep(ctx, circlePause) {
		return nil, ctx.Err()
	}
	known := make(map[string]bool)
	for _, circle := range first {
		known[circleKey(circle)] = true
	}
	if c, err = takeCensus(ctx, client); err != nil {
		return nil, err
	}
	for _, circle := range circlesOf(c) {
		if !known[circleKey(circle)] {
			continue
		}
		d := new(mortise.DeadlockError)
		for _, l := range circle {
			d.Waits = append(d.Waits, mortise.DeadlockWait{Lock: l.wait.Lock, Client: l.client.ClientInfo, Since: l.wait.Since})
		}
		list = append(list, d)
	}
	return list, nil
}
