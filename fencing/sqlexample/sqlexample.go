// Package sqlexample shows how an SQL database refuses the late write of a holder that has lost its
// lock. It is an example to copy, and a module of its own, so that mortise does not depend on the
// database driver.
//
// Each row remembers the newest token under which it was written, and each write is one statement
// with the token as a condition:
//
//	UPDATE account SET balance = ?, token = ? WHERE id = ? AND token <= ?
//
// A single statement needs no transaction. If it changed no row, the token is stale, or there is no
// such row, or the database is MySQL and the row already had these values; the row's token tells
// which.
package sqlexample

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
)

// Schema is the table of the example. A row has token 0 until it is written under a lock.
const Schema = `CREATE TABLE account (
	id      INTEGER PRIMARY KEY,
	balance INTEGER NOT NULL,
	token   INTEGER NOT NULL DEFAULT 0
)`

// SetBalance writes the balance of an account, unless a newer holder of the lock has written it
// since: then it returns an error that matches [fencing.ErrStale]. A token below 1, which a hold
// without token has, would be admitted to a new row; it is refused.
func SetBalance(ctx context.Context, db *sql.DB, id, balance, token int64) error {
	if token < 1 {
		return fmt.Errorf("account %d: %w: %d is not a fencing token", id, mortise.ErrInvalid, token)
	}
	result, err := db.ExecContext(ctx,
		`UPDATE account SET balance = ?, token = ? WHERE id = ? AND token <= ?`, balance, token, id, token)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err != nil || changed == 1 {
		return err
	}
	var newest int64
	if err := db.QueryRowContext(ctx, `SELECT token FROM account WHERE id = ?`, id).Scan(&newest); err != nil {
		return fmt.Errorf("account %d: %w", id, err) // sql.ErrNoRows
	}
	if newest == token {
		return nil // MySQL counts changed rows only: this one already had these values
	}
	return &fencing.StaleError{Resource: fmt.Sprintf("account %d", id), Token: token, Newest: newest}
}
