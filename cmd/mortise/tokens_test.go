package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

// tiring is a link whose server refuses to let a counter expire when it has done so for some.
type tiring struct {
	*mortisetest.Link
	left int
}

func (d *tiring) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	if expire := calls[0].Args[1]; expire != "0" {
		if d.left--; d.left < 0 {
			return []driver.Result{{Err: &driver.Error{Class: driver.Denied, Err: errors.New("refused")}}}
		}
	}
	return d.Link.Batch(ctx, calls)
}

// What was done before an error is told, in JSON too.
func TestTokensTellsWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mortisetest.NewServer()
		defer server.Close()
		for _, name := range []string{"a", "b", "c"} {
			if _, err := server.Do("SET", "redisson_lock_token:{"+name+"}", "1"); err != nil {
				t.Fatal(err)
			}
		}
		client := mortise.New(&tiring{server.Link(), 2}, nil)
		defer client.Close()
		var out bytes.Buffer
		run := tokens{app: &app{stdout: newOutput(&out), json: true}, client: client, expire: duration.Flag(time.Hour), yes: true}
		err := run.run(t.Context())
		var told []tokenForm
		if jerr := json.Unmarshal(out.Bytes(), &told); !errors.Is(err, mortise.ErrDenied) || jerr != nil || len(told) != 2 {
			t.Errorf("%v, and it has told %q; want two names, and that Redis refuses", err, out.String())
		}
	})
}
