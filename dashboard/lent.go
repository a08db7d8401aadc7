package dashboard

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// errandsRetry is for how long an action tries to reach Redis: a browser waits for it.
const errandsRetry = 2 * time.Second

// lent is a driver that several clients of the dashboard use, one after the other or side by side, and which none of
// them closes. They subscribe to nothing.
type lent struct{ driver.Driver }

// Close does nothing: the dashboard closes the driver.
func (lent) Close() error { return nil }

// Subscriber returns one that does nothing.
func (lent) Subscriber(driver.Sink) driver.Subscriber { return deaf{} }

// Scan implements driver.Scanner.
func (l lent) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	s, ok := l.Driver.(driver.Scanner)
	if !ok {
		return errors.New("this driver cannot list keys")
	}
	return s.Scan(ctx, match, fn)
}

// deaf is a Subscriber that hears nothing.
type deaf struct{}

func (deaf) Subscribe(string, bool)   {}
func (deaf) Unsubscribe(string, bool) {}
func (deaf) Close() error             { return nil }
