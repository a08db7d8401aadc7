package keyspace

import (
	"slices"
	"strings"
)

// What the counters of tokens, and the fences, begin with.
const (
	tokenKeys = "redisson_lock_token:"
	fenceKeys = "mortise:fence:"
)

// TokenPattern is a glob that matches the counters of tokens and the fences: one search finds both. Of other keys it matches only the
// queues of fair locks, which CountsTokens tells apart.
const TokenPattern = "[rm][eo][dr][it][si]s[oe][n:][_f][le][on]c[ke][_:]*"

// CountsTokens reports whether key can be a counter of tokens, or a fence.
func CountsTokens(key string) bool {
	return strings.HasPrefix(key, tokenKeys) || strings.HasPrefix(key, fenceKeys)
}

// CountedNames returns the names that share the counter of tokens that key is, or that of the name
// whose fence it is: with the same text in braces, Redisson has one counter for two names. Names
// that break on a cluster are left out. There is no name if key is neither.
func CountedNames(key string) (names []string, fence bool) {
	name, counter := strings.CutPrefix(key, tokenKeys)
	if !counter {
		if name, fence = fenced(key); !fence {
			return nil, false
		}
		name = strings.TrimPrefix(Token(name), tokenKeys)
	}
	if !strings.Contains(name, "{") {
		return nil, fence
	}
	names = []string{name}
	if inner, ok := unbraced(name); ok {
		names = []string{inner, name}
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckSlot(name) != nil }), fence
}

// fenced returns the name whose fence is key.
func fenced(key string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(key, fenceKeys); !ok {
		return "", false
	}
	for _, candidate := range []string{strings.TrimSuffix(name, "::"), strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")} {
		if candidate != "" && Fence(candidate) == key {
			return candidate, true
		}
	}
	return "", false
}

// unbraced returns the text in the one pair of braces of which name consists.
func unbraced(name string) (inner string, ok bool) {
	if len(name) < 3 || name[0] != '{' || name[len(name)-1] != '}' {
		return "", false
	}
	inner = name[1 : len(name)-1]
	return inner, !strings.Contains(inner, "{")
}
