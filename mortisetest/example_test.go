package mortisetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// A job is an export: it writes rows. Only one process may do so at a time.
type job func(ctx context.Context, locks *mortise.Client, write func(row int)) error

// naiveExport is right as long as nothing goes wrong: it never looks at the context of its hold.
func naiveExport(ctx context.Context, locks *mortise.Client, write func(row int)) error {
	return locks.Lock("export").Do(ctx, func(context.Context) error {
		for row := range 10 {
			write(row)
		}
		return nil
	})
}

// export stops when it has lost the lock.
func export(ctx context.Context, locks *mortise.Client, write func(row int)) error {
	return locks.Lock("export").Do(ctx, func(ctx context.Context) error {
		for row := range 10 {
			if ctx.Err() != nil {
				return context.Cause(ctx) // an ErrLost, which says why
			}
			write(row)
		}
		return nil
	})
}

// lateWrites runs a job, cuts it off from Redis in the middle of its third row, and returns how
// many rows it writes while another process has the lock.
func lateWrites(job job, options *mortise.Options) (late int, err error) {
	server := mortisetest.NewServer()
	defer server.Close()
	link := server.Link()
	client := mortise.New(link, options)
	defer client.Close()
	other := mortise.New(server.Link(), nil) // for a lock, the same as another process
	defer other.Close()

	var theirs *mortise.Hold
	err = job(context.Background(), client, func(row int) {
		if theirs != nil {
			late++
		}
		if row == 2 {
			link.Partition() // no renewal gets through, so the lease ends
			theirs, _, _ = other.Lock("export").Lock(context.Background())
		}
	})
	link.Heal()
	return late, errors.Join(err, theirs.Unlock())
}

// What does a job do when its lock is lost? This finds out: an export is cut off from Redis while it
// holds the lock, until its lease has ended and another process has the lock. The naive export goes
// on writing.
//
// [testing/synctest] makes the wait for the end of the lease take no time, whatever its length.
func Example() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		options := &mortise.Options{TTL: 10 * time.Second}

		late, err := lateWrites(naiveExport, options)
		fmt.Printf("naive: %d rows without the lock; lost: %t\n", late, errors.Is(err, mortise.ErrLost))

		late, err = lateWrites(export, options)
		fmt.Printf("mended: %d rows without the lock; lost: %t\n", late, errors.Is(err, mortise.ErrLost))
	})
	// Output:
	// naive: 7 rows without the lock; lost: true
	// mended: 0 rows without the lock; lost: true
}
