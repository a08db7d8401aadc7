package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// headline says in a sentence what mortise and the best other lock reach at the largest size at which both were
// measured; what mortise reaches, if no other was. A lock that got nothing done there was measured. It returns ""
// if mortise was not measured either.
func (r *Record) headline(s *series, cases []Case) string {
	for _, alone := range []bool{false, true} {
		for i := len(cases) - 1; i >= 0; i-- {
			own, other, idle := r.rivals(cases[i].Name, s)
			if own == "" || other == "" && len(idle) == 0 && !alone {
				continue
			}
			text := "With " + fmt.Sprintf(sizes[s.growth], plain(float64(cases[i].Size))) + ", " + r.compared(s, cases[i].Name, own, other)
			if other == "" && len(idle) > 0 {
				text += "; " + strings.Join(idle, " and ") + " finished no acquisition in time"
			}
			return text
		}
	}
	return ""
}

// sizes name a size of a series.
var sizes = map[string]string{
	"waiters":          "%s goroutines",
	"processes":        "%s processes",
	"readers":          "%s readers",
	"permit processes": "%s processes",
	"permit waiters":   "%s goroutines",
	"held":             "%s locks",
	"shards":           "%s shards",
	"queue":            "%s waiters",
}

// rivals returns the first system of mortise that was measured under a load, the other lock that was the best,
// and the other locks that got nothing done.
func (r *Record) rivals(load string, s *series) (own, other string, idle []string) {
	best := math.Inf(1)
	for i := range r.Systems {
		system := &r.Systems[i]
		m := r.Spread(load, system.Name, s.of)
		if m.N == 0 {
			continue
		}
		cost := m.Median
		if s.more {
			cost = -cost
		}
		switch role := roleOf(system); {
		case m.Median <= 0 && role == peers:
			idle = append(idle, system.Name)
		case m.Median <= 0:
		case role == ours && own == "":
			own = system.Name
		case role == peers && cost < best:
			other, best = system.Name, cost
		}
	}
	return own, other, idle
}

// compared says what two systems reach under a load. other may be empty.
func (r *Record) compared(s *series, load, own, other string) string {
	text := fmt.Sprintf(s.says, s.tell(r.Spread(load, own, s.of).Median)) + " with " + short(own)
	if other == "" {
		return text
	}
	text += ", and " + s.tell(r.Spread(load, other, s.of).Median) + " with " + other
	rest := 0
	for i := range r.Systems {
		if m := r.Spread(load, r.Systems[i].Name, s.of); roleOf(&r.Systems[i]) == peers && m.N > 0 && m.Median > 0 {
			rest++
		}
	}
	if rest > 1 {
		text += ", the best of the others"
	}
	return text
}

// short is the name of a system without that of its Redis client.
func short(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

// plain formats a number with as many digits as count does, without its letters: in groups of three.
func plain(x float64) string {
	if math.Abs(x) < 999.5 {
		return trim(x)
	}
	unit := 1.0
	if math.Abs(x) >= 1e4 {
		unit = math.Pow10(int(math.Floor(math.Log10(math.Abs(x)))) - 2)
	}
	digits := strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
