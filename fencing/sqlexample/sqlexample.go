// Package sqlexample shows how an SQL database refuses the late write of a holder
// that lost its lock. It is an example to copy, and a module of its own, so that
// the database driver is no dependency of mortise.
//
// Each row remembers the newest token under which it was written, and each write
// is one statement that has the token as a condition:
//
//	UPDATE account SET balance = ?, token = ? WHERE id = ? AND token <= ?
//
// No transaction is needed for a single statement. If no row was changed, the
// token is stale, or there is no such row, or the database is MySQL and the row
// was so already; the row's token tells which.
package sqlexample

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/mortise-go/mortise/fencing"
)

// Schema is the table of the example. A token of 0 is that of a row nobody has
// written under a lock.
const Schema = `CREATE TABLE account (
	id      INTEGER PRIMARY KEY,
	balance INTEGER NOT NULL,
	token   INTEGER NOT NULL DEFAULT 0
)`

// SetBalance writes the balance of an account, unless a newer holder of the
// lock has written it since: then it returns an error that matches
// [fencing.ErrStale].
func SetBalance(ctx context.Context, db *sql.DB, id, balance, token int64) error {
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
		return nil // MySQL counts the rows that it changed: this one was so already
	}
	return &fencing.StaleError{Resource: fmt.Sprintf("account %d", id), Token: token, Newest: newest}
}
