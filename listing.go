package mortise

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/scan"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/survey"
)

// Locks iterates over the objects that are held, among the names that match the
// glob pattern (as in Redis: * ? [abc]), Redisson's objects included: locks of
// all kinds, terms of elections, and semaphores with permits that are held. It
// uses SCAN, so it does not block the server, and an object that is locked or
// released meanwhile may or may not be included. An object is recognized by its
// form, such as a hash whose only field is a UUID, a colon and more text.
//
// Do not use Locks on a hot path: it looks at every key that matches, with one SCAN for about
// 500 keys, a script for each 250 of them, and one for each that may be held. After each page
// it pauses for as long as Redis took, so that half of a server's time is left to others.
//
// Do not close the client inside the loop: Close waits for the iteration.
//
// An error ends the iteration and comes with a zero State. Errors are those of
// [Lock.Inspect]. If some servers of a cluster could not be read, the error is an [UnlistedError],
// and comes after what the others have.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[State, error] {
	needContext(ctx)
	return func(yield func(State, error) bool) {
		if err := c.core.Run(func() error {
			return survey.Run(ctx, c.core, func(ctx context.Context, w *survey.Walk) error { return c.scan(ctx, w, pattern, yield) })
		}); err != nil && !errors.Is(err, errStop) {
			yield(State{}, &Error{Op: "list", Name: pattern, Err: unlisted(outcome.Meaning(err))})
		}
	}
}

// UnlistedError says that some servers of a cluster could not be read: what they have is missing from what
// was listed, and nothing of the others is.
type UnlistedError struct {
	Servers []string // their addresses
	Err     error
}

func (e *UnlistedError) Error() string { return e.Err.Error() }
func (e *UnlistedError) Unwrap() error { return e.Err }

// unlisted returns err with the servers that it names.
func unlisted(err error) error {
	if servers := scan.Servers(err); len(servers) > 0 {
		return &UnlistedError{servers, err}
	}
	return err
}

// errStop ends a scan whose loop has ended early.
var errStop = errors.New("stop")

func (c *Client) scan(ctx context.Context, w *survey.Walk, pattern string, yield func(State, error) bool) error {
	scanner, ok := c.core.Config().Driver.(driver.Scanner)
	if !ok {
		return errors.New("this driver cannot list keys")
	}
	prefix := c.core.Config().Prefix
	seen := make(map[string]bool) // SCAN may return a key twice
	missing := make(survey.Missing)
	return missing.And(scanner.Scan(ctx, literal.Replace(prefix)+pattern, func(page []string) error {
		w.Answered()
		page = slices.DeleteFunc(page, keyspace.CountsTokens) // a look at one would be a use of it
		if len(page) == 0 || survey.Misses(c.core, missing, page[0]) {
			return nil
		}
		var found []*State
		var err error
		w.Aside(func() { found, err = c.held(ctx, page) })
		found = slices.DeleteFunc(found, func(s *State) bool {
			again := seen[s.Name]
			seen[s.Name] = true
			return again
		})
		more := true
		w.Aside(func() {
			silent := false
			for some := range slices.Chunk(found, script.InspectBatch) {
				silent = silent || c.identify(ctx, some...) // it takes a bounded time, and another server may have the records
				for i := 0; more && i < len(some); i++ {
					more = yield(*some[i], nil)
				}
			}
		})
		if !more {
			return errStop
		}
		return survey.Miss(ctx, c.core, missing, page[0], err)
	}))
}

// held returns the states of those names of a page that are held, as far as the server has answered. It waits for the server as a
// walk does, whatever other servers do.
func (c *Client) held(ctx context.Context, page []string) (found []*State, err error) {
	prefix := c.core.Config().Prefix
	err = survey.Run(ctx, c.core, func(ctx context.Context, w *survey.Walk) error {
		start := time.Now()
		page, answered := script.Sift(ctx, c.core.Config().Driver, page)
		if answered {
			w.Answered()
			var err error
			if w.Aside(func() { err = rest(ctx, time.Since(start)) }); err != nil {
				return err
			}
		}
		for keys := range slices.Chunk(page, script.InspectBatch) {
			for i, result := range script.Inspect(ctx, c.core.Config().Driver, keys...) {
				if result.Err != nil {
					result = c.inspectAgain(ctx, w, keys[i], result)
				}
				if result.Err != nil {
					return result.Err
				}
				if s := state(strings.TrimPrefix(keys[i], prefix), result.Key); s.Locked && s.Name != "" {
					found = append(found, &s)
				}
			}
			w.Answered()
		}
		return nil
	})
	return found, err
}

// rest pauses for d, which may be 0.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return driver.ContextError(ctx, driver.NotSent)
	}
}

// literal makes a pattern of SCAN that matches only the text itself.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// inspectAgain reads a key again that could not be read in a batch, and retries while Redis cannot
// serve it. Of a name whose slot is on its way, which may last, it reads only the key itself: a
// FairLock looks like a Lock then, and permits of a semaphore are not seen.
func (c *Client) inspectAgain(ctx context.Context, w *survey.Walk, key string, result script.InspectResult) script.InspectResult {
	first := true
	result.Err = c.core.Retry(ctx, func(ctx context.Context) error {
		if !first {
			result = script.InspectMoving(ctx, c.core.Config().Driver, key)[0]
		}
		first = false
		if result.Err != nil && driver.ClassOf(result.Err) == driver.Passing { // it has answered; what it said is the error in the end
			w.Answered()
		}
		return result.Err
	})
	return result
}
