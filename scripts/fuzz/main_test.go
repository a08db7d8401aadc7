package main

import "testing"

// A target fails if an input did, and if there were none.
func TestVerdict(t *testing.T) {
	const tries = "fuzz: elapsed: 3s, execs: 51 (17/sec)\nfuzz: elapsed: 6s, execs: 940 (296/sec), new interesting: 8 (total: 9)\n"
	for _, test := range []struct {
		output string
		passed bool
		want   string
	}{
		{tries + "PASS\n", true, "ok"},
		{tries + "--- FAIL: FuzzX (6.05s)\n    context deadline exceeded\nFAIL\n", false, "ok"},
		{tries + "--- FAIL: FuzzX (6.05s)\n    x_test.go:7: context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzX/1\n", false, "FAILED"},
		{tries + "--- FAIL: FuzzX (6.05s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\n", false, "FAILED"},
		{"PASS\n", true, "FAILED before the first input"},
		{"x_test.go:1: undefined: y\n", false, "FAILED before the first input"},
	} {
		o := read(test.output, test.passed)
		if got := o.verdict(); got != test.want {
			t.Errorf("%s is %q, want %q", test.output, got, test.want)
		}
		if test.want != "FAILED before the first input" && o.inputs != 940 {
			t.Errorf("%d inputs, want 940", o.inputs)
		}
	}
}

// Targets are run until they have tried enough, and no longer than the first failure.
func TestRounds(t *testing.T) {
	all := []target{{"a", "FuzzA"}, {"b", "FuzzB"}}
	for _, test := range []struct {
		want, failAt, ran, total, failures int
	}{
		{want: 0, ran: 2, total: 20},
		{want: 20, ran: 2, total: 20},
		{want: 21, ran: 4, total: 40},
		{want: 1000, failAt: 3, ran: 4, total: 40, failures: 1},
	} {
		ran := 0
		total, failures := rounds(all, test.want, func(target) outcome {
			ran++
			return outcome{inputs: 10, failed: ran == test.failAt}
		})
		if ran != test.ran || total != test.total || failures != test.failures {
			t.Errorf("%d inputs wanted: %d runs, %d inputs, %d failures; want %d, %d, %d", test.want, ran, total, failures, test.ran, test.total, test.failures)
		}
	}
}
