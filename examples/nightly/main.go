// Command nightly writes a report, once a night: every machine starts it at about the same time, and
// the first that gets the lock does the work. The others end at once, without an error, also those
// whose clock is late by less than ten minutes.
package main

import (
	"cmp"
	"context"
	"errors"
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

	// MinHold keeps the lock taken when the report is written, or has failed, in less than that time. The
	// TTL does so if this process dies.
	once := mortise.LockOptions{MinHold: 10 * time.Minute, TTL: 10 * time.Minute}
	hold, lctx, err := client.Lock("nightly:report").With(once).TryLock(ctx)
	var held *mortise.HeldError
	if errors.As(err, &held) {
		log.Printf("another machine writes the report, or has written it: %v", held)
		return nil
	}
	if err != nil {
		return err // Redis was not reached, for example
	}
	err = report(lctx)
	if uerr := hold.Unlock(); !errors.Is(err, mortise.ErrLost) { // a loss is told by both
		err = errors.Join(err, uerr)
	}
	return err
}

// report is the work. Its context ends when the lock is lost, or this process is told to end.
func report(ctx context.Context) error {
	for _, part := range []string{"orders", "payments", "returns"} {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		fmt.Println("reporting on", part)
	}
	return nil
}
