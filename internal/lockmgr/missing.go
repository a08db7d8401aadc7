package lockmgr

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
)

// Missing has, by their addresses, the servers of a cluster that could not be read, and why. What the others have is listed.
type Missing map[string]error

// Miss returns err unless it is that the server of a cluster that has key cannot serve, which it notes.
func (c *Client) Miss(ctx context.Context, m Missing, key string, err error) error {
	return c.miss(ctx, m, c.driver.Shard(key), err)
}

// miss is Miss for a server. Where there is only one, its address is empty.
func (c *Client) miss(ctx context.Context, m Missing, server string, err error) error {
	if err == nil || server == "" || expired(ctx) || !isUnanswered(err) || isDown(err) {
		return err
	}
	if closed := c.orClosed(err); errors.Is(closed, ErrClosed) {
		return closed
	}
	m[server] = err
	var silent silentError
	var failed *driver.Error
	switch {
	case errors.As(err, &silent):
		m[server] = silent
	case errors.As(err, &failed):
		m[server] = failed
	}
	return nil
}

// isDown reports whether a server says that the cluster as a whole does not serve.
func isDown(err error) bool {
	var refused *driver.Error
	return errors.As(err, &refused) && strings.HasPrefix(refused.Reply, "CLUSTERDOWN ")
}

// Misses reports whether the server that has key is missing.
func (c *Client) Misses(m Missing, key string) bool {
	_, ok := m[c.driver.Shard(key)]
	return ok
}

// And returns err with the servers that are missing added to those that it names; err if it is another error, or if there are none.
func (m Missing) And(err error) error {
	var all scan.Errors
	if len(m) == 0 || err != nil && !errors.As(err, &all) {
		return err
	}
	named := scan.Servers(err)
	all = slices.Clone(all)
	for _, server := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(named, server) {
			all = append(all, &scan.ServerError{Server: server, Err: m[server]})
		}
	}
	return unreachable(&driver.Error{Class: driver.NotSent, Err: all})
}
