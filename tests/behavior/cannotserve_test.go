package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A Redis that answers but cannot serve is not called one that cannot be reached; the error says in
// plain words what is wrong with it, and has its reply.
func TestRedisThatCannotServeIsDescribed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const reply = "OOM command not allowed when used memory > 'maxmemory'."
		full := &hook{Driver: s.Driver(), eval: func(context.Context, driver.Call) (driver.Value, error, bool) {
			return driver.Value{}, driver.ReplyError(errors.New(reply), reply), true
		}}
		c := mortise.New(full, &mortise.Options{RetryFor: time.Second})
		defer full.Close()
		defer c.Close()
		_, _, lockErr := c.Lock("job").Lock(t.Context())
		_, _, tryErr := c.Lock("job").TryLock(t.Context())
		setErr := c.PermitSemaphore("permits").SetPermits(t.Context(), 2)
		for op, err := range map[string]error{"Lock": lockErr, "TryLock": tryErr, "SetPermits": setErr} {
			if !errors.Is(err, mortise.ErrUnreachable) || !strings.HasSuffix(err.Error(), ": redis cannot serve: it is out of memory, so it accepts no writes: "+reply) {
				t.Errorf("%s: %v, want ErrUnreachable that says what is wrong", op, err)
			}
		}
	})
}
