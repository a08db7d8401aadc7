package connect_test

import (
	"context"
	"fmt"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
)

func ExampleOpen() {
	ctx := context.Background()
	d, err := connect.Open(ctx, "mem://") // or redis://localhost:6379
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	v, err := d.Eval(ctx, driver.Call{
		Script: driver.NewScript("greet", `return 'hello ' .. ARGV[1]`),
		Args:   []string{"world"},
	})
	fmt.Println(v.Str(), err)
	// Output: hello world <nil>
}

func ExampleRedact() {
	fmt.Println(connect.Redact("redis://app:secret@db.example:6379/1"))
	// Output: redis://app:xxxxx@db.example:6379/1
}
