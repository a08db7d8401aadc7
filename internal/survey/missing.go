package survey

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/scan"
)

// Missing has, by their addresses, the servers of a cluster that could not be read, and why. What the others have is listed.
type Missing map[string]error

// Miss returns err unless it is that the server of a cluster that has key cannot serve, which it notes.
func Miss(ctx context.Context, c *lease.Client, m Missing, key string, err error) error {
	return MissFrom(ctx, c, m, c.Driver().Shard(key), err)
}

// MissFrom is MissKey for a server. Where there is only one, its address is empty.
func MissFrom(ctx context.Context, c *lease.Client, m Missing, server string, err error) error {
	if err == nil || server == "" || lease.Expired(ctx) || !outcome.IsUnanswered(err) || isDown(err) {
		return err
	}
	if closed := c.OrClosed(err); errors.Is(closed, outcome.ErrClosed) {
		return closed
	}
	m[server] = err
	var silent outcome.SilentError
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
func Misses(c *lease.Client, m Missing, key string) bool {
	_, ok := m[c.Driver().Shard(key)]
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
	return outcome.Unreachable(&driver.Error{Class: driver.NotSent, Err: all})
}
