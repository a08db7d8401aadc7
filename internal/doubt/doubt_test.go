package doubt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

func TestDoubtBeginsWithTheFirstUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := func(c driver.Class) func() error {
			return func() error {
				time.Sleep(time.Second)
				return &driver.Error{Class: c, Err: errors.New(c.String())}
			}
		}
		var d Doubt
		for _, c := range []driver.Class{driver.NotSent, driver.Passing, driver.Denied} {
			if err := d.Try(failed(c)); driver.ClassOf(err) != c {
				t.Errorf("Try = %v, want what the attempt returned", err)
			}
			time.Sleep(time.Hour)
		}
		if err := d.Try(func() error { return nil }); err != nil || d.Err() != nil || d.Longer(0) {
			t.Errorf("after attempts that cannot have run: %v, %v, %v, want no doubt", err, d.Err(), d.Longer(0))
		}
		_ = d.Try(failed(driver.Unknown)) // this attempt took a second
		if d.Err() == nil || !d.Longer(time.Second-1) || d.Longer(time.Second) {
			t.Errorf("%v, %v, %v, want doubt since the attempt began", d.Err(), d.Longer(time.Second-1), d.Longer(time.Second))
		}
		_ = d.Try(failed(driver.NotSent))
		_ = d.Try(failed(driver.Unknown))
		if !d.Longer(3*time.Second-1) || d.Longer(3*time.Second) {
			t.Error("want doubt since the first attempt of which nothing is known")
		}
	})
}

// A machine was suspended: its monotonic clock stood still. Or its wall clock was set back.
func TestDoubtLooksAtBothClocks(t *testing.T) {
	lost := func() error { return &driver.Error{Class: driver.Unknown, Err: errors.New("lost")} }
	var suspended, back Doubt
	_ = suspended.Try(lost)
	_ = back.Try(lost)
	suspended.wall = suspended.wall.Add(-time.Hour)
	back.wall = back.wall.Add(time.Hour)
	back.began = back.began.Add(-time.Hour)
	for what, d := range map[string]*Doubt{"suspended": &suspended, "set back": &back} {
		if !d.Longer(30*time.Minute) || d.Longer(2*time.Hour) {
			t.Errorf("%s: %v, %v, want an hour", what, d.Longer(30*time.Minute), d.Longer(2*time.Hour))
		}
	}
}
