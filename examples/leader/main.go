// Command leader runs on every machine, and leads on one of them. When it is told to end (SIGTERM) it
// stops leading first, so that another process leads at once; when it dies, another one leads when its
// lease has ended.
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
	for {
		term, lctx, err := client.Election("scheduler").Campaign(ctx, me)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil // told to end while it was a candidate
		case err != nil:
			return err
		}
		fmt.Printf("%s leads, term %d\n", me, term.Token())
		lead(lctx)
		log.Printf("leads no more: %v", context.Cause(lctx))
		if err := term.Resign(); err != nil {
			log.Print(err) // the lead was lost before
		}
		if ctx.Err() != nil {
			return nil
		}
	}
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
