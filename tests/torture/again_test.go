package torture

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// replay returns the command that runs a test once more.
func replay(test string, args ...string) string {
	return fmt.Sprintf("cd tests/torture && go test -count=1 -timeout=0 -run '^%s$' -args %s", test, strings.Join(args, " "))
}

// again returns the command that makes this round.
func (p plan) again() string {
	args := []string{"-time", "1m", "-lanes", "1", "-rounds", "1", "-seed", strconv.FormatUint(p.seed, 10), "-only", p.String()}
	if p.storm != 0 && p.storm != 6*time.Second {
		args = append(args, "-storm", p.storm.String())
	}
	if p.load != "" {
		args = append(args, "-load", p.load)
	}
	return replay("TestTorture", args...)
}

// tellAgain prints the command that runs what failed once more.
func tellAgain(t *testing.T, command string) {
	t.Helper()
	t.Logf("again: %s", command)
	if *limit != 0 {
		fmt.Println("      again:", command)
	}
}

// tellAgainIfFailed does so at the end of a test that has failed.
func tellAgainIfFailed(t *testing.T, command string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			tellAgain(t, command)
		}
	})
}

// counted returns a number of things, such as "1 round" or "3 rounds".
func counted(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return strconv.Itoa(n) + " " + one
}

// The command that a round which fails prints makes that round.
func TestRoundIsRunAgain(t *testing.T) {
	next := schedule(7, "")
	for range 2 * len(nemeses) {
		p := next()
		first := schedule(p.seed, p.String())()
		if first.String() != p.String() || first.seed != p.seed {
			t.Errorf("%v, seed %d: again it is %v, seed %d", p, p.seed, first, first.seed)
		}
		if got, want := p.again(), fmt.Sprintf("-lanes 1 -rounds 1 -seed %d -only %v", p.seed, p); !strings.Contains(got, want) {
			t.Errorf("the command is %q, want one with %q", got, want)
		}
	}
	p := plan{seed: 1, nemesis: nemeses[0], kind: "single", driver: "rueidis", storm: time.Minute, load: "lock"}
	if got := p.again(); !strings.HasSuffix(got, "-seed 1 -only "+p.String()+" -storm 1m0s -load lock") {
		t.Errorf("the command is %q, want it with its storm and load", got)
	}
}
