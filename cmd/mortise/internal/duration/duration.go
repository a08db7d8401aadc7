// Package duration parses durations as users write them, and formats them for users. The commands
// use it for their flags and messages.
package duration

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Flag is a flag that accepts the syntax of time.ParseDuration, or a plain number of seconds as in
// flock(1).
type Flag time.Duration

var plainSeconds = regexp.MustCompile(`^-?([0-9]+\.?[0-9]*|\.[0-9]+)$`)

// Set implements pflag.Value.
func (d *Flag) Set(s string) error {
	v, err := Parse(s)
	*d = Flag(v)
	return err
}

var errNegative = errors.New("it must not be negative")

// Parse returns the duration in a text. It is never negative.
func Parse(s string) (time.Duration, error) {
	if plainSeconds.MatchString(s) {
		seconds, err := strconv.ParseFloat(s, 64)
		if err != nil || seconds >= math.MaxInt64/float64(time.Second) {
			return 0, errors.New("too long")
		}
		if seconds < 0 {
			return 0, errNegative
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, errors.New("write it as 90s, 1m30s, 500ms, or as a number of seconds")
	case d < 0:
		return 0, errNegative
	}
	return d, nil
}

// String implements pflag.Value. The help shows it as the default.
func (d *Flag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *Flag) Type() string { return "duration" }

// Round rounds d to a precision for users.
func Round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
