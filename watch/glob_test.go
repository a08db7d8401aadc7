package watch

import (
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "ab", false},
		{"a*", "a", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false}, {"*b*", "abc", true}, {"**", "x", true}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"a[bc]d", "abd", true}, {"a[bc]d", "aed", false}, {"a[^bc]d", "aed", true}, {"a[^bc]d", "abd", false},
		{"a[a-c]d", "abd", true}, {"a[c-a]d", "abd", true}, {"a[a-c]d", "add", false}, {`a\*`, "a*", true}, {`a\*`, "ab", false},
		{`[\]]`, "]", true}, {"[abc", "b", true}, {"order:*", "order:42", true}, {"*:42", "order:42", true}, {"*aab", "aaaab", true},
		{`a\`, `a\`, true}, {"x*\xff", "xa\xff", true}, {"[", "a", false},
	} {
		if got := Match(test.pattern, test.name); got != test.want {
			t.Errorf("Match(%q, %q) = %v, want %v", test.pattern, test.name, got, test.want)
		}
	}
}

// manyStars is a pattern that is made to be slow, and a name for it.
func manyStars() (pattern, name string) {
	return strings.Repeat("a*", 200) + "b", strings.Repeat("a", 2000)
}

// A pattern that is made to be slow is not.
func TestMatchOfManyStars(t *testing.T) {
	matches := make(chan bool)
	go func() { matches <- Match(manyStars()) }()
	select {
	case got := <-matches:
		if got {
			t.Error("it matches, want not")
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

func TestLiteral(t *testing.T) {
	for pattern, want := range map[string]string{"deploy": "deploy", `a\*b`: "a*b", `\\`: `\`, "": ""} {
		if got, ok := Literal(pattern); got != want || !ok {
			t.Errorf("Literal(%q) = %q, %v, want %q", pattern, got, ok, want)
		}
	}
	for _, pattern := range []string{"*", "a?", "[a]", `\\*`} {
		if got, ok := Literal(pattern); ok {
			t.Errorf("Literal(%q) = %q, want none", pattern, got)
		}
	}
}
