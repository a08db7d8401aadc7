package memredis_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Reports is an example of an application: it writes a report, and must not write two at a time, on
// any number of machines.
type Reports struct {
	Locks *mortise.Client
	Write func(ctx context.Context) error
}

func (r *Reports) Nightly(ctx context.Context) error {
	hold, ctx, err := r.Locks.Lock("report:nightly").TryLock(ctx)
	if errors.Is(err, mortise.ErrLocked) {
		return nil // another machine is writing it
	}
	if err != nil {
		return err
	}
	return errors.Join(r.Write(ctx), hold.Unlock())
}

// An application's own code, on an embedded Redis: no server, no port.
func Example() {
	redis := memredis.New()
	defer redis.Close()
	here := mortise.New(redis.Driver(), nil)
	defer here.Close()
	elsewhere := mortise.New(redis.Driver(), nil) // for a lock, the same as another process
	defer elsewhere.Close()

	reports := Reports{Locks: here, Write: func(context.Context) error {
		fmt.Println("writing")
		return nil
	}}
	ctx := context.Background()
	hold, _, err := elsewhere.Lock("report:nightly").Lock(context.Background())
	fmt.Println("locked elsewhere:", err)
	fmt.Println("nightly:", reports.Nightly(ctx))
	fmt.Println("unlocked elsewhere:", hold.Unlock())
	fmt.Println("nightly:", reports.Nightly(ctx))
	// Output:
	// locked elsewhere: <nil>
	// nightly: <nil>
	// unlocked elsewhere: <nil>
	// writing
	// nightly: <nil>
}
