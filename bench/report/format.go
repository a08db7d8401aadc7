package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Brief formats a sample in one line, to follow a run.
func Brief(s *Sample) string {
	if s.Figures == nil {
		return s.Error
	}
	f := s.Figures
	parts := []string{}
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if f.Goroutines > 0 {
		say("%s/s", count(f.PerSecond))
		if f.HandOvers > 0 {
			say("%s hand-overs/s", count(f.HandOvers))
			say("Jain %.3f", f.Jain)
		}
		if f.Starved > 0 {
			say("%d of %d starved", f.Starved, f.Goroutines)
		}
		if f.WriteMax > 0 {
			say("%s writes/s, worst wait to write %s", count(f.Writes), span(f.WriteMax))
		}
		say("worst wait %s", span(f.WaitMax))
		say("%s+%s commands", told(f.Sent), told(f.Inner))
		if f.Allocs > 0 {
			say("%.1f allocs", f.Allocs)
		}
	} else {
		say("%s commands/s", count(f.SentRate))
		say("%s bytes, %.2f goroutines each", count(f.BytesEach), f.RoutinesPer)
		say("%.3f cores", f.ClientCPU)
	}
	if f.Overlaps > 0 {
		say("%d OVERLAPS", f.Overlaps)
	}
	if f.Failures > 0 {
		say("%d failures: %s", f.Failures, f.Failure)
	}
	if f.Hung+f.Lost+f.Acquired > 0 {
		say("%d hung, %d lost, %d waiters let in", f.Hung, f.Lost, f.Acquired)
	}
	return strings.Join(parts, ", ")
}

// count formats a number of things with three significant digits.
func count(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e6:
		return trim(x/1e6) + " M"
	case a >= 1e4:
		return trim(x/1e3) + " k"
	}
	return trim(x)
}

// ratio formats a ratio near 1.
func ratio(x float64) string { return trim(x) }

// trim formats a number with three significant digits, or all of a whole one.
func trim(x float64) string {
	digits := 2
	switch a := math.Abs(x); {
	case a >= 99.95:
		digits = 0
	case a >= 9.995:
		digits = 1
	case a < 0.0995 && a > 0:
		digits = 3
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") && math.Trunc(x) == x {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// span formats a duration with two or three significant digits.
func span(d time.Duration) string {
	switch {
	case d >= time.Second:
		return trim(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return trim(float64(d)/1e6) + " ms"
	case d >= time.Microsecond:
		return trim(float64(d)/1e3) + " µs"
	}
	return strconv.Itoa(int(d)) + " ns"
}

// micros formats microseconds.
func micros(us float64) string { return trim(us) + " µs" }

// fixed formats a number with a fixed number of decimals.
func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
