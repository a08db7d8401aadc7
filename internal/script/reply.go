package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

// A reply that no script gives comes from a proxy, from a server that is not Redis, or from a defect.
// It is an error, and never an outcome.

// is reports whether v is an array of items of these kinds: i is an integer, n an integer or nil, s
// a string, a an array.
func is(v driver.Value, kinds string) bool { return v.Len() == len(kinds) && begins(v, kinds) }

// begins reports whether v is an array whose first items are of these kinds, as for [is].
func begins(v driver.Value, kinds string) bool {
	if v.Kind() != driver.Array || v.Len() < len(kinds) {
		return false
	}
	for i := range len(kinds) {
		kind := v.At(i).Kind()
		switch kinds[i] {
		case 'i':
			if kind != driver.Int {
				return false
			}
		case 'n':
			if kind != driver.Int && kind != driver.Nil {
				return false
			}
		case 's':
			if kind != driver.String {
				return false
			}
		case 'a':
			if kind != driver.Array {
				return false
			}
		}
	}
	return true
}

// states reports whether v is {status}, or {status, reason}, with a status from least to most.
func states(v driver.Value, least, most int64) bool {
	n := v.At(0).Int()
	return (is(v, "i") || is(v, "is")) && n >= least && n <= most
}

// texts reports whether v is an array of strings.
func texts(v driver.Value) bool {
	for i := range v.Len() {
		if v.At(i).Kind() != driver.String {
			return false
		}
	}
	return v.Kind() == driver.Array
}

// headed reports whether v is {number, text, ...}.
func headed(v driver.Value) bool {
	if v.At(0).Kind() != driver.Int {
		return false
	}
	for i := 1; i < v.Len(); i++ {
		if v.At(i).Kind() != driver.String {
			return false
		}
	}
	return true
}

// unexpected is the error for a reply that breaks the script's contract.
func unexpected(s *driver.Script, v driver.Value) error {
	return &driver.Error{Class: driver.Other, Err: fmt.Errorf("script %s gave the unexpected reply %s", s.Name(), brief(v))}
}

// brief formats a reply for an error. It cuts what is long: the other side chooses the size.
func brief(v driver.Value) string {
	const most = 200 // bytes
	var b strings.Builder
	var add func(v driver.Value)
	add = func(v driver.Value) {
		switch {
		case b.Len() > most:
		case v.Kind() == driver.String:
			b.WriteString(strconv.QuoteToASCII(v.Str()[:min(len(v.Str()), most)]))
		case v.Kind() == driver.Array:
			b.WriteByte('[')
			for i := 0; i < v.Len() && b.Len() <= most; i++ {
				if i > 0 {
					b.WriteByte(' ')
				}
				add(v.At(i))
			}
			b.WriteByte(']')
		default:
			b.WriteString(v.String())
		}
	}
	if add(v); b.Len() > most {
		return b.String()[:most] + "…"
	}
	return b.String()
}
