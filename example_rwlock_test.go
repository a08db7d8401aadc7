package mortise_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Two read at the same time, which keeps writers out. Then one of them writes,
// and goes on as a reader of what it wrote, without a gap in which another could
// have changed it.
func ExampleRWLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	config, ctx := client.RWLock("config"), context.Background()

	one, _, err := config.Read().Lock(ctx)
	two, _, err2 := config.Read().Lock(ctx)
	fmt.Println("two readers:", err, err2)
	_, _, err = config.Write().TryLock(ctx)
	fmt.Println("a writer has to wait:", errors.Is(err, mortise.ErrLocked))
	one.Unlock()
	two.Unlock()

	owner := mortise.WithOwner(ctx) // for holds that overlap
	writer, _, err := config.Write().Lock(owner)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, _, err := config.Read().Lock(owner)
	fmt.Println("the writer reads too:", err)
	writer.Unlock()
	_, _, err = config.Write().TryLock(owner)
	fmt.Println("a reader cannot become a writer:", errors.Is(err, mortise.ErrReentry))
	reader.Unlock()
	// Output:
	// two readers: <nil> <nil>
	// a writer has to wait: true
	// the writer reads too: <nil>
	// a reader cannot become a writer: true
}
