package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	redis "github.com/redis/rueidis"
)

// oldest is the major version of the oldest Redis that locks work on: before it, a script that has
// asked for the time cannot write.
const oldest = 5

// oldServerError is the version of a server that is too old.
type oldServerError string

func (e oldServerError) Error() string {
	return fmt.Sprintf("it is Redis %s, and locks need %d.0 or later", string(e), oldest)
}

// asked is how many servers of a cluster are asked for their version: the first that answers counts, as one may not.
const asked = 3

// checkVersion returns an oldServerError if the server is too old, or one of a cluster.
func checkVersion(ctx context.Context, client redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	nodes := slices.Collect(maps.Values(client.Nodes())) // in random order
	nodes = nodes[:min(len(nodes), asked)]
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() { answers <- checkNode(ctx, node) }()
	}
	for range nodes {
		select {
		case err := <-answers:
			if errors.Is(err, errNoVersion) {
				continue
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// errNoVersion says that a server did not answer.
var errNoVersion = errors.New("no answer")

// checkNode returns an oldServerError if the server is too old. Servers that know HELLO are not: it came with Redis 6.0, as did rules
// that can forbid INFO.
func checkNode(ctx context.Context, client redis.Client) error {
	err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).Error()
	if err == nil {
		return nil
	}
	reply, ok := redis.IsRedisErr(err)
	switch {
	case !ok:
		return errNoVersion
	case !strings.Contains(reply.Error(), "unknown command"):
		return nil
	}
	text, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return nil //nolint:nilerr // whatever it is, the version is not known to be too old
	}
	return versionError(text)
}

// versionError reads the answer to INFO.
func versionError(info string) error {
	for line := range strings.Lines(info) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "redis_version" {
			continue
		}
		first, _, _ := strings.Cut(version, ".")
		if major, err := strconv.Atoi(first); err == nil && major < oldest {
			return oldServerError(version)
		}
	}
	return nil
}
