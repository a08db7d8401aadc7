package connect

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// What is cut because the server is a replica says so, with the class that it had.
func TestWhyAConnectionWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &behindOneAddress{lines: new(lines)}
		refused := &driver.Error{Class: driver.Passing, Err: errors.New("READONLY no"), Reply: "READONLY no"}
		cut := &driver.Error{Class: driver.Unknown, Err: net.ErrClosed}
		other := &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
		before := time.Now()
		unchanged := func(start time.Time, err *driver.Error) {
			t.Helper()
			if got, ok := d.left(start, err).(*driver.Error); got != err || !ok { //nolint:errorlint // it must be the same
				t.Errorf("%v reads %v", err, got)
			}
		}
		unchanged(before, cut)
		time.Sleep(time.Second)
		unchanged(before, refused)
		var why *driver.Error
		if err := d.left(before, cut); !errors.As(err, &why) || why.Class != driver.Unknown || why.Reply != refused.Reply || !errors.Is(err, net.ErrClosed) {
			t.Errorf("a cut reads %v, want why, with its class", err)
		}
		unchanged(before, other)
		time.Sleep(time.Second)
		if err := d.left(time.Now(), cut); !errors.As(err, &why) || why.Reply != refused.Reply {
			t.Errorf("a later command on a connection that was closed here reads %v, want why", err)
		}
		unchanged(time.Now(), &driver.Error{Class: driver.Unknown, Err: net.UnknownNetworkError("x")})
	})
}
