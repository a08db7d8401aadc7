package keyspace

import (
	"slices"
	"testing"
)

// No two names that are admitted share a key or a channel, whatever prefix is before them, none is
// a key of the other, and each has all of its keys in one slot: see TestNoTwoNamesShareAKey, which
// says what the names job and {job} share.
func FuzzNames(f *testing.F) {
	for _, seed := range [][3]string{
		{"", "job", "{job}"}, {"app:", "{t}:x", "a}b"}, {"{p}", "x{}y", "a{b}c{d}"}, {"mortise:", "turns:{job}", "job"},
		{"", "{open", "a:timeout"}, {"", "job", "{job}:timeout"}, {"app:{t}", ":timeout", "job:timeout"}, {"redisson_", "lock_queue:{job}", "job:a:1:rwlock_timeout:1"}, {"a{b", "}c", "{job}::"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		candidates := []string{a, b, prefix + a, prefix + b, "{" + a + "}", a + b}
		candidates = append(append(candidates, ownNames(a)...), redissonsNames(a)...)
		k := &keys{own: make(map[string]string), shared: make(map[string]string)}
		var names []string
		for _, name := range candidates {
			err := Check(name, false)
			wantNoMoreRefused(t, name, err)
			if err == nil && !slices.Contains(names, name) {
				names = append(names, name)
				k.add(t, name)
			}
		}
		for _, name := range names {
			k.wantNone(t, name)
		}
		if err := CheckPrefix(prefix, false); err != nil && prefix+a != a && len(prefix) < MaxName && Check(prefix+a, false) == nil && Check(prefix+"x", false) == nil {
			t.Errorf("the prefix %q is refused, though it makes names that are admitted: %v", prefix, err)
		}
	})
}

// The counter of tokens, and the fence, lead back to the name, and no other key does.
func FuzzTokenKeys(f *testing.F) {
	for _, seed := range []string{"job", "{job}", "a{b}c", "{t}:x", "redisson_lock_token:{job}", "mortise:fence:{job}::", "mortise:fence:{}", "{"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, fence := CountedNames(text)
		for _, name := range names {
			if !fence && Token(name) != text || fence && Token(name) != Token(names[0]) {
				t.Errorf("%q is said to count for %q, which has the counter %q", text, name, Token(name))
			}
		}
		if names != nil && !CountsTokens(text) {
			t.Errorf("%q is said to count for %q, and not to count", text, names)
		}
		if Check(text, false) != nil {
			return
		}
		for key, wantFence := range map[string]bool{Token(text): false, Fence(text): true} {
			if names, fence := CountedNames(key); !slices.Contains(names, text) || fence != wantFence {
				t.Errorf("%q leads to %q, fence %v, want %q among them", key, names, fence, text)
			}
		}
	})
}
