package doctor_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/doctor"
)

// rule returns the words of a rule that must be acceptable.
func rule(t *testing.T, r doctor.Rule) []string {
	t.Helper()
	words, err := r.Words()
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// documented returns docs/protocol.md.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The rules are those of docs/protocol.md, word by word, which tests prove on a real server.
func TestRulesAreThoseOfTheDocuments(t *testing.T) {
	lines := make(map[string]string)
	for _, block := range regexp.MustCompile("(?m)^([^\n]+):\n\n```\n(ACL SETUSER [^\n]+)\n```$").FindAllStringSubmatch(documented(t), -1) {
		lines[block[1]] = block[2]
	}
	matched := 0
	for _, kind := range doctor.Kinds() {
		if kind == doctor.KindLook {
			continue
		}
		got := strings.Join(rule(t, doctor.Rule{User: "locks", Prefix: "app:", Kinds: []doctor.Kind{kind}}), " ")
		for title, line := range lines {
			if strings.HasPrefix(strings.ReplaceAll(title, "`", ""), kind.Title()) {
				matched++
				if got != line {
					t.Errorf("the rule of %s is\n%s\nin the documents\n%s", kind, got, line)
				}
			}
		}
	}
	if matched != len(lines) || matched != len(doctor.Kinds())-1 {
		t.Errorf("%d of %d rules are in the documents, which have %d", matched, len(doctor.Kinds())-1, len(lines))
	}
}

// The rule for all kinds together has the rights of the one in docs/protocol.md.
func TestRuleOfAllKinds(t *testing.T) {
	block := regexp.MustCompile("(?s)```\n(ACL SETUSER .*?)```").FindStringSubmatch(documented(t))
	var kinds []doctor.Kind
	for _, kind := range doctor.Kinds() {
		if !kind.OnTop() && kind != doctor.KindLook || kind == doctor.KindRecords || kind == doctor.KindInspect {
			kinds = append(kinds, kind)
		}
	}
	got, want := rule(t, doctor.Rule{User: "locks", Prefix: "app:", Kinds: kinds}), strings.Fields(block[1])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the rule of all kinds has the words\n%q\nin the documents\n%q", got, want)
	}
}

func TestRuleForOneWhoLooks(t *testing.T) {
	documents := regexp.MustCompile("For people who only look, these are enough: `([^`]+)`").FindStringSubmatch(documented(t))
	got := rule(t, doctor.Rule{User: "viewer", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindLook}})
	for _, word := range strings.Fields(documents[1]) {
		if !slices.Contains(got, word) {
			t.Errorf("the rule %q is without %s", got, word)
		}
	}
	for _, word := range []string{"+hset", "+del", "+set", "+publish", "+pexpire"} {
		if slices.Contains(got, word) {
			t.Errorf("the rule %q has %s", got, word)
		}
	}
}

// Who asks a client to release tells it by a message.
func TestRuleOfRecordsPublishes(t *testing.T) {
	got := rule(t, doctor.Rule{User: "operator", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindRecords}})
	for _, word := range []string{"+publish", "+spublish", "&mortise:ask:app:*"} {
		if !slices.Contains(got, word) {
			t.Errorf("the rule %q is without %s", got, word)
		}
	}
}

func TestRuleForAnyPrefix(t *testing.T) {
	all := rule(t, doctor.Rule{User: "u", Kinds: []doctor.Kind{doctor.KindLock, doctor.KindRecords}})
	if !slices.Contains(all, "~*") || slices.Contains(all, "~mortise:turns:*") || !slices.Contains(all, "&mortise:turn:*") {
		t.Errorf("without a prefix: %q", all)
	}
	odd := rule(t, doctor.Rule{User: "u", Prefix: `a*b[c]\`, Kinds: []doctor.Kind{doctor.KindLock}})
	if !slices.Contains(odd, `~a\*b\[c\]\\*`) {
		t.Errorf("a prefix with the signs of patterns: %q", odd)
	}
	cluster := rule(t, doctor.Rule{User: "u", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindLock}, Cluster: true})
	if !slices.Contains(cluster, "+cluster|slots") {
		t.Errorf("of a cluster: %q", cluster)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	lock := []doctor.Kind{doctor.KindLock}
	for what, r := range map[string]doctor.Rule{
		"no kind":                {User: "u"},
		"unknown kind":           {User: "u", Kinds: []doctor.Kind{"unfair"}},
		"no user":                {Kinds: lock},
		"a space in the prefix":  {User: "u", Prefix: "my app:", Kinds: lock},
		"a line in the user":     {User: "u\n+@all", Kinds: lock},
		"a right in the user":    {User: "u +@all", Kinds: lock},
		"control in the prefix":  {User: "u", Prefix: "\x1b:", Kinds: lock},
		"a right in the prefix ": {User: "u", Prefix: "a* +@all ~", Kinds: lock},
	} {
		if words, err := r.Words(); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("%s: %q, %v, want ErrInvalid", what, words, err)
		}
	}
}
