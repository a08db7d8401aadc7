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

// A pattern that is made to be slow is not.
func TestMatchOfManyStars(t *testing.T) {
	start := time.Now()
	if Match(strings.Repeat("a*", 200)+"b", strings.Repeat("a", 2000)) {
		t.Error("it matches, want not")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
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
