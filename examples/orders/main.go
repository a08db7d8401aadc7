// Command orders is a web service that ships each order once, however many requests and processes ask
// for it, at the same time or later: the lock admits one after the other, and each looks first whether
// the order was shipped. It answers
//
//	200  the order is shipped, now or before
//	423  somebody else is shipping it: try again later
//	503  Redis does not answer: try again later
//	400  no order can have this number
//
// A process that dies between the shipment and its record ships the order again. Where that does harm,
// give the carrier the number of the order, so that it refuses the second shipment.
//
//	orders DATABASE
package main

import (
	"cmp"
	"context"
	"database/sql"
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
	_ "modernc.org/sqlite"
)

const schema = `CREATE TABLE IF NOT EXISTS shipment (id TEXT PRIMARY KEY)`

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: orders DATABASE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)") // other processes write, too
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	redis, err := connect.Open(ctx, cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	client := mortise.New(redis, &mortise.Options{RetryFor: time.Second}) // a request does not wait for an outage to end
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/shipment", shipment(client, db))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	log.Printf("listens on http://%s", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	idle := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { idle <- server.Shutdown(context.Background()) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-idle // the requests that are under way need the client and the database until their ends
}

// shipment returns a handler that ships an order under its lock.
func shipment(client *mortise.Client, db *sql.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order := r.PathValue("order")
		lock := client.Lock("order:" + order).With(mortise.LockOptions{Wait: 2 * time.Second})
		when := "before"
		err := lock.Do(r.Context(), func(ctx context.Context) error { // however long the work takes
			if done, err := shipped(ctx, db, order); err != nil || done {
				return err
			}
			when = "now"
			return ship(ctx, db, order)
		})
		switch {
		case err == nil:
			fmt.Fprintf(w, "order %s is shipped: %s\n", order, when)
		case errors.Is(err, mortise.ErrLost):
			log.Printf("order %s: %v", order, err)
			http.Error(w, "the order may not have been shipped", http.StatusInternalServerError)
		case r.Context().Err() != nil:
			log.Printf("order %s: nobody waits for the answer any more: %v", order, err)
		case errors.Is(err, mortise.ErrLocked):
			refuse(w, http.StatusLocked, "somebody else is shipping this order")
		case errors.Is(err, mortise.ErrUnreachable):
			refuse(w, http.StatusServiceUnavailable, "orders cannot be locked at the moment")
		case errors.Is(err, mortise.ErrInvalid):
			http.Error(w, "no order can have this number", http.StatusBadRequest)
		default: // the work has failed
			log.Printf("order %s: %v", order, err)
			http.Error(w, "the order may not have been shipped", http.StatusInternalServerError)
		}
	})
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Retry-After", "2")
	http.Error(w, why, status)
}

// shipped reports whether an order was shipped. The answer stays true for as long as its lock is held.
func shipped(ctx context.Context, db *sql.DB, order string) (done bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM shipment WHERE id = ?)`, order).Scan(&done)
	return done, err
}

// ship is the work. Its context ends when the lock is lost, or the request is given up.
func ship(ctx context.Context, db *sql.DB, order string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	log.Printf("ships order %s", order)
	// What has been shipped is recorded, whatever happens to the request.
	_, err := db.ExecContext(context.WithoutCancel(ctx), `INSERT INTO shipment (id) VALUES (?)`, order)
	return err
}
