// Command leader runs on every machine, and leads on one of them. When it is told to end (SIGTERM) it
// stops leading first, so that another process leads at once; when it dies, another one leads when its
// lease has ended. While Redis is away nobody leads; then one of them does again.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	redis, err := connect.Open(ctx, cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	client := mortise.New(redis, nil)
	defer client.Close()

	me := fmt.Sprintf("process %d", os.Getpid())
	err = client.Election("scheduler").Lead(ctx, me, func(ctx context.Context, term *mortise.Term) error {
		fmt.Printf("%s leads, term %d\n", me, term.Token())
		lead(ctx)
		log.Printf("leads no more: %v", context.Cause(ctx))
		return nil
	})
	if ctx.Err() != nil {
		return nil // told to end: it does not lead any more
	}
	return err
}

// lead is the work of the leader. Its context ends, before another process can lead, when the lead is
// lost, and when this process is told to end. Then it must return.
func lead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
			log.Print("starts what is due")
		}
	}
}
