package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// outcome is how a test has ended.
type outcome string

const (
	survived outcome = "SURVIVED" // the test has passed
	caught   outcome = "caught"   // the test has failed
	panicked outcome = "panicked" // the test binary has
	hung     outcome = "hung"     // the test took too long
	unusable outcome = "unusable" // the mutant could not be made, or does not compile
	noTest   outcome = "no test"  // there is none of that name
)

// verdict is what the output of go test says.
type verdict struct {
	outcome outcome
	by      []string // the tests that have failed, without those that contain them
	says    string   // the first thing that one of them has said
}

func (v verdict) String() string {
	text := string(v.outcome)
	if len(v.by) > 0 {
		text += " by " + v.by[0]
	}
	if n := len(v.by); n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	if v.says != "" {
		text += ": " + v.says
	}
	return text
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Test, Output string
	FailedBuild          string
}

var (
	// message matches what a test says when it fails.
	message = regexp.MustCompile(`^\s+([a-z0-9_]+\.go:\d+: .*|FAIL: .*)`)
	// notLua matches what Lua says about a script that is no script: any test would notice that.
	notLua = regexp.MustCompile(`Error compiling script|<string>.*(parse error|syntax error)|attempt to (call|index|compare|perform arithmetic|concatenate)`)
	// dead matches the beginning of what a Go program says when it ends too early.
	dead = regexp.MustCompile(`^(panic: |fatal error: )(.*)`)
)

// judge reads the output of go test -json.
func judge(r io.Reader) verdict {
	var v verdict
	said := make(map[string]string) // by test
	passed := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // what go itself prints
		}
		switch {
		case e.FailedBuild != "" || e.Action == "build-fail":
			return verdict{outcome: unusable, says: "it does not compile"}
		case e.Action == "output":
			v.hear(e, said)
		case e.Test != "" && e.Action == "fail":
			v.by = append(v.by, e.Test)
		case e.Test != "" && e.Action == "pass":
			passed = true
		}
	}
	v.by = leaves(v.by)
	v.conclude(passed, said)
	return v
}

// conclude sets the outcome, unless it is known already. passed tells whether any test has.
func (v *verdict) conclude(passed bool, said map[string]string) {
	switch {
	case v.outcome != "":
	case len(v.by) > 0:
		v.outcome = caught
		for _, test := range v.by {
			v.says = cmp.Or(v.says, said[test])
		}
	case passed:
		v.outcome = survived
	default:
		v.outcome = noTest
	}
}

// hear notes a line of output.
func (v *verdict) hear(e event, said map[string]string) {
	m := message.FindStringSubmatch(e.Output)
	if m != nil && said[e.Test] == "" && !strings.HasPrefix(m[1], "testscript.go") { // a session, until its FAIL
		said[e.Test] = strings.TrimSpace(m[1])
	}
	if notLua.MatchString(e.Output) {
		v.outcome, v.says = unusable, "it is no Lua: "+strings.TrimSpace(e.Output)
	}
	if m := dead.FindStringSubmatch(e.Output); m != nil && v.outcome == "" {
		v.outcome, v.says = panicked, strings.TrimSpace(m[2])
		if strings.HasPrefix(m[2], "test timed out") {
			v.outcome = hung
		}
	}
}

// leaves returns the tests of which no other one is a subtest.
func leaves(failed []string) (leaves []string) {
	for i, test := range failed {
		leaf := true
		for j, other := range failed {
			leaf = leaf && (i == j || !strings.HasPrefix(other, test+"/"))
		}
		if leaf {
			leaves = append(leaves, test)
		}
	}
	return leaves
}
