// Command orders is a web service that ships each order once, however many requests and processes try
// it at the same time. It answers
//
//	200  the order is shipped
//	423  somebody else is shipping it: try again later
//	503  Redis does not answer: try again later
//	400  no order can have this number
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
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
	client := mortise.New(redis, &mortise.Options{RetryFor: time.Second}) // a request does not wait for an outage to end
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/shipment", shipment(client))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	log.Printf("listens on http://%s", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shipment returns a handler that ships an order under its lock.
func shipment(client *mortise.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order := r.PathValue("order")
		lock := client.Lock("order:" + order).With(mortise.LockOptions{Wait: 2 * time.Second})
		err := lock.Do(r.Context(), func(ctx context.Context) error { // however long the work takes
			return ship(ctx, order)
		})
		switch {
		case err == nil:
			fmt.Fprintf(w, "order %s is shipped\n", order)
		case errors.Is(err, mortise.ErrLocked):
			refuse(w, http.StatusLocked, "somebody else is shipping this order")
		case errors.Is(err, mortise.ErrUnreachable):
			refuse(w, http.StatusServiceUnavailable, "orders cannot be locked at the moment")
		case errors.Is(err, mortise.ErrInvalid):
			http.Error(w, "no order can have this number", http.StatusBadRequest)
		default: // the work has failed, or the lock was lost while it ran
			log.Printf("order %s: %v", order, err)
			http.Error(w, "the order may not have been shipped", http.StatusInternalServerError)
		}
	})
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Retry-After", "2")
	http.Error(w, why, status)
}

// ship is the work. Its context ends when the lock is lost, or the request is given up.
func ship(ctx context.Context, order string) error {
	log.Printf("ships order %s", order)
	return ctx.Err()
}
