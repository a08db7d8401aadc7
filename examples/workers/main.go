// Command workers converts the files that it is given: as many at the same time as there are
// licenses, however many processes on however many machines do so. A license that a process used when
// it died comes back by itself.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

const licenses = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, files []string) error {
	redis, err := connect.Open(ctx, cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	client := mortise.New(redis, nil)
	defer client.Close()

	permits := client.PermitSemaphore("converter:licenses")
	if _, err := permits.TrySetPermits(ctx, licenses); err != nil { // the first process sets them
		return err
	}
	var workers sync.WaitGroup
	failed := make([]error, len(files))
	for i, file := range files {
		workers.Go(func() {
			failed[i] = permits.Do(ctx, func(ctx context.Context) error { return convert(ctx, file) })
		})
	}
	workers.Wait()
	return errors.Join(failed...)
}

// convert is the work. Its context ends when the permit is lost, or this process is told to end.
func convert(ctx context.Context, file string) error {
	fmt.Println("begins", file)
	defer fmt.Println("has done", file)
	return context.Cause(ctx)
}
