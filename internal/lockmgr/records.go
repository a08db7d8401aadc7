package lockmgr

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/scan"
	"github.com/mortise-go/mortise/internal/script"
)

// Records returns the records of all clients with the same prefix. If servers of a cluster do not answer, it returns those of the
// others, and an error that names the servers.
func (c *Client) Records(ctx context.Context) (list []*Record, err error) {
	err = c.Run(func() error {
		var ids []string
		index := keyspace.ClientIndex(c.config.Prefix)
		missing := make(missing)
		_, err := c.call(ctx, c.others.patience(c.driver.Shard(index)), func(ctx context.Context) (err error) {
			if _, err = c.driver.Topology(ctx); err == nil { // from now on it is known which server has what
				ids, err = script.ListClients(ctx, c.driver, index, mostRecords)
			}
			return err
		})
		if err = c.others.but(ctx, missing, c.driver.Shard(index), err); err == nil {
			list, err = c.others.all(ctx, ids, missing)
		}
		if err != nil {
			list = nil
			return err
		}
		return missing.err()
	})
	return list, err
}

// all reads the records of many clients, from all servers of a cluster at once. One that has not answered a moment ago is not waited
// for as long as a retry lasts.
func (o *others) all(ctx context.Context, ids []string, missing missing) (list []*Record, err error) {
	byServer := make(map[string][]string)
	for _, id := range ids {
		server := o.shard(id)
		byServer[server] = append(byServer[server], id)
	}
	var reading sync.WaitGroup
	var mu sync.Mutex // guards the results, and missing
	for server, ids := range byServer {
		reading.Go(func() {
			some, failed := o.allOf(ctx, server, ids)
			mu.Lock()
			defer mu.Unlock()
			list = append(list, some...)
			if failed = o.but(ctx, missing, server, failed); err == nil {
				err = failed
			}
		})
	}
	reading.Wait()
	return list, err
}

// allOf reads the records that one server has.
func (o *others) allOf(ctx context.Context, server string, ids []string) (list []*Record, err error) {
	err = walk(ctx, o.patience(server), func(ctx context.Context, w *Walk) error {
		for some := range slices.Chunk(ids, recordsAtOnce) {
			read, _, err := o.read(ctx, some...)
			if list = append(list, read...); err != nil {
				return err
			}
			w.Answered()
		}
		return nil
	})
	return list, err
}

// patience is how long a server of a cluster is waited for.
func (o *others) patience(server string) time.Duration {
	if patience := o.client.config.RetryFor; patience >= 0 && patience < lookUpWithin || !o.isSilent(server) {
		return patience
	}
	return lookUpWithin
}

// but returns err unless it is that a server of a cluster cannot serve: then it notes that.
func (o *others) but(ctx context.Context, missing missing, server string, err error) error {
	var silent silentError
	var failed *driver.Error
	switch {
	case err == nil:
		o.noteAnswer(server)
		return nil
	case server == "" || expired(ctx) || !isUnanswered(err):
		return err
	case errors.As(err, &silent):
		missing[server] = silent
	case errors.As(err, &failed):
		missing[server] = failed
	}
	o.noteSilent(server)
	return nil
}

// missing has, by their addresses, the servers of a cluster that could not be read, and why.
type missing map[string]error

// err returns an error that names the servers, nil if there are none.
func (m missing) err() error {
	if len(m) == 0 {
		return nil
	}
	var all scan.Errors
	for _, server := range slices.Sorted(maps.Keys(m)) {
		all = append(all, &scan.ServerError{Server: server, Err: m[server]})
	}
	return unreachable(&driver.Error{Class: driver.NotSent, Err: all})
}
