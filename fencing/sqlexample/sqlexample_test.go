package sqlexample_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/fencing/sqlexample"
	"github.com/mortise-go/mortise/memredis"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // pure Go
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A holder is frozen for longer than its lease, and writes when it wakes.
func Example() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		server := memredis.New() // in production: your Redis
		defer server.Close()
		client := mortise.New(server.Driver(), nil)
		defer client.Close()
		ctx := context.Background()

		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer db.Close()
		db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
		if _, err := db.ExecContext(ctx, sqlexample.Schema+`; INSERT INTO account VALUES (7, 100, 0)`); err != nil {
			fmt.Println(err)
			return
		}

		lock := client.FencedLock("account:7")
		slow, _, err := lock.With(mortise.LockOptions{MaxHold: 50 * time.Millisecond}).Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		time.Sleep(100 * time.Millisecond) // frozen; it does not check its context

		next, _, err := lock.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("next:", sqlexample.SetBalance(ctx, db, 7, 90, next.Token()))
		fmt.Println("next:", sqlexample.SetBalance(ctx, db, 7, 80, next.Token())) // more than once

		err = sqlexample.SetBalance(ctx, db, 7, 110, slow.Token())
		fmt.Println("slow:", err)
		fmt.Println(errors.Is(err, fencing.ErrStale))
	})
	// Output:
	// next: <nil>
	// next: <nil>
	// slow: token 1 for "account 7" is stale: 2 has been seen, so another holder has had the lock since, or the counter of its tokens was lost
	// true
}

// Many connections write with rising tokens at the same time: the writes recorded by a trigger
// never go back.
func TestWritesAreInTheOrderOfTheirTokens(t *testing.T) {
	ctx := t.Context()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(4)
	_, err = db.ExecContext(ctx, sqlexample.Schema+`; INSERT INTO account VALUES (7, 0, 0);
		CREATE TABLE log (n INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER);
		CREATE TRIGGER logged AFTER UPDATE ON account BEGIN INSERT INTO log (token) VALUES (new.token); END`)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for token := range int64(40) {
		all.Go(func() {
			for range 5 {
				err := sqlexample.SetBalance(ctx, db, 7, token, token+1)
				if err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	rows, err := db.QueryContext(ctx, `SELECT token FROM log ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var log []int64
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		log = append(log, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(log) || len(log) == 0 || log[len(log)-1] != 40 {
		t.Errorf("the log of writes is %v", log)
	}
}

func TestAnAccountThatIsNotThere(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), sqlexample.Schema); err != nil {
		t.Fatal(err)
	}
	if err := sqlexample.SetBalance(t.Context(), db, 7, 1, 1); !errors.Is(err, sql.ErrNoRows) || errors.Is(err, fencing.ErrStale) {
		t.Errorf("%v, want sql.ErrNoRows", err)
	}
}

// A new row has the token 0, so the hold of a lock without tokens must not be admitted there.
func TestWhatIsNoTokenIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), sqlexample.Schema+`; INSERT INTO account VALUES (7, 100, 0)`); err != nil {
		t.Fatal(err)
	}
	if err := sqlexample.SetBalance(t.Context(), db, 7, 1, 0); !errors.Is(err, mortise.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
	var balance int64
	if err := db.QueryRowContext(t.Context(), `SELECT balance FROM account WHERE id = 7`).Scan(&balance); err != nil || balance != 100 {
		t.Errorf("the balance is %d, %v; want 100 as before", balance, err)
	}
}

// changedOnly is a connection that counts rows as MySQL does: only those that changed.
type changedOnly struct{ driver.Conn }

func (c changedOnly) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c changedOnly) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, "UPDATE") { // balance, token, id, token
		query += " AND NOT (balance = ? AND token = ?)"
		args = append(args, driver.NamedValue{Ordinal: 5, Value: args[0].Value}, driver.NamedValue{Ordinal: 6, Value: args[1].Value})
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

type mysqlLike struct{ driver.Driver }

func (d mysqlLike) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	return changedOnly{c}, err
}

// A write that is repeated with the current token is not that of a former holder, though a database
// that counts changed rows counts none.
func TestAnIdenticalWriteIsNotStale(t *testing.T) {
	plain, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	sql.Register("changed-only", mysqlLike{plain.Driver()})
	db, err := sql.Open("changed-only", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), sqlexample.Schema+`; INSERT INTO account VALUES (7, 100, 0)`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sqlexample.SetBalance(t.Context(), db, 7, 90, 2); err != nil {
			t.Error(err)
		}
	}
	if err := sqlexample.SetBalance(t.Context(), db, 7, 90, 1); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("a former holder's write: %v, want ErrStale", err)
	}
}
