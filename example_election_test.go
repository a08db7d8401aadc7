package mortise_test

import (
	"context"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// A leader tells others its address, and they follow who leads.
func ExampleElection() {
	redis := memredis.New()
	defer redis.Close()
	ctx := context.Background()

	node := mortise.New(redis.Driver(), nil)
	defer node.Close()
	term, held, err := node.Election("scheduler").Campaign(ctx, "10.0.0.1:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("elected for term", term.Token())

	user := mortise.New(redis.Driver(), nil)
	defer user.Close()
	for leader, err := range user.Election("scheduler").Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case leader.Term == 0:
			fmt.Println("nobody leads")
			fmt.Println(context.Cause(held))
			return
		}
		fmt.Println("the leader is at", leader.Value)
		if leader.Value == "10.0.0.1:80" {
			err = term.Proclaim(ctx, "10.0.0.1:443")
		} else {
			err = term.Resign()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// elected for term 1
	// the leader is at 10.0.0.1:80
	// the leader is at 10.0.0.1:443
	// nobody leads
	// released already
}
