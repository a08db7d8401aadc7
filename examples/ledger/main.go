// Command ledger adds an amount to an account in an SQL database, under a lock. The lock keeps others
// from reading the balance before it is written; its token keeps a process that was frozen for longer
// than its lease from writing over what its successor wrote: each row knows the newest token that has
// written it, and refuses older ones.
//
//	ledger DATABASE ACCOUNT AMOUNT
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	_ "modernc.org/sqlite"
)

const schema = `CREATE TABLE IF NOT EXISTS account (
	id      TEXT PRIMARY KEY,
	balance INTEGER NOT NULL DEFAULT 0,
	token   INTEGER NOT NULL DEFAULT 0
)`

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: ledger DATABASE ACCOUNT AMOUNT")
	}
	amount, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err == nil {
		err = run(context.Background(), os.Args[1], os.Args[2], amount)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file, account string, amount int64) error {
	db, err := sql.Open("sqlite", file)
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
	client := mortise.New(redis, nil)
	defer client.Close()

	return client.FencedLock("account:"+account).Do(ctx, func(ctx context.Context) error {
		hold, _ := mortise.HoldFrom(ctx)
		return add(ctx, db, account, amount, hold.Token())
	})
}

var errStale = errors.New("a newer holder of the lock has written this account")

// add adds an amount to an account, unless a holder with a larger token has written it.
func add(ctx context.Context, db *sql.DB, account string, amount, token int64) error {
	if _, err := db.ExecContext(ctx, `INSERT OR IGNORE INTO account (id) VALUES (?)`, account); err != nil {
		return err
	}
	var balance int64
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account WHERE id = ?`, account).Scan(&balance); err != nil {
		return err
	}
	balance += amount
	// From here to the end of the statement the process may be frozen for any time: the condition decides.
	result, err := db.ExecContext(ctx, `UPDATE account SET balance = ?, token = ? WHERE id = ? AND token <= ?`, balance, token, account, token)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return errors.Join(err, errStale)
	}
	fmt.Printf("account %s has %d, written with token %d\n", account, balance, token)
	return nil
}
