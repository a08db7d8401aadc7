package demo

import (
	"bytes"
	"regexp"
	"testing"
	"time"
)

// recorded is one event of a script; the events are a millisecond apart. Written values follow.
type recorded struct {
	worker int
	what   action
	value  int
}

func events(script ...recorded) []event {
	at := time.Unix(1000, 0)
	var es []event
	for _, r := range script {
		at = at.Add(time.Millisecond)
		es = append(es, event{At: at, Worker: r.worker, What: r.what, Value: r.value})
	}
	return es
}

// turn is one whole turn of a worker, which writes value.
func turn(worker, value int) []recorded {
	return []recorded{{worker, workerAsks, 0}, {worker, workerEnters, 0}, {worker, workerWrites, value}, {worker, workerLeaves, 0}}
}

func join(turns ...[]recorded) (all []recorded) {
	for _, t := range turns {
		all = append(all, t...)
	}
	return all
}

// crashed: worker-2 is killed in its second turn while worker-1 waits.
var crashed = join(turn(1, 1), turn(2, 2), []recorded{
	{2, workerAsks, 0}, {2, workerEnters, 0}, {2, workerStalls, 2}, {1, workerAsks, 0},
	{2, workerKilled, 0},
	{1, workerEnters, 0}, {1, workerWrites, 3}, {1, workerLeaves, 0}, {1, workerEnds, 0},
})

// The verdict is nil for an exact file, and says what is wrong with any other.
func TestDemoVerdict(t *testing.T) {
	for _, test := range []struct {
		name   string
		script []recorded
		final  int
		want   string // pattern of the error; empty for nil
	}{
		{"exact", join(turn(1, 1), turn(2, 2), turn(1, 3)), 3, ""},
		{"exact in spite of a kill", crashed, 3, ""},
		{"the killed worker's update is there", crashed, 4, `^the file says 4, but only 3 updates were completed$`},
		{"one lost", join(turn(1, 1), turn(2, 2), turn(1, 3)), 2, `^1 of 3 updates were lost$`},
		{"all lost", join(turn(1, 1), turn(2, 2)), 0, `^2 of 2 updates were lost$`},
		{"one too many", join(turn(1, 1)), 2, `^the file says 2, but only 1 updates were completed$`},
		{"one lost, one forged", join(turn(1, 1), turn(2, 1), turn(1, 2)), 3, `^the workers should have written each number from 1 to 3 once, but have not written 2$`},
		{"nobody did anything", nil, 0, `^no worker completed an update$`},
		{"two inside", []recorded{
			{1, workerAsks, 0}, {1, workerEnters, 0}, {2, workerAsks, 0}, {2, workerEnters, 0},
			{1, workerWrites, 1}, {1, workerLeaves, 0}, {2, workerWrites, 2}, {2, workerLeaves, 0},
		}, 2, `^2 workers were in the middle of an update at the same time$`},
		{"taken over before the kill", []recorded{
			{1, workerAsks, 0}, {1, workerEnters, 0}, {1, workerWrites, 1}, {1, workerLeaves, 0},
			{2, workerAsks, 0}, {2, workerEnters, 0}, {2, workerStalls, 1}, {1, workerAsks, 0}, {1, workerEnters, 0},
			{2, workerKilled, 0}, {1, workerWrites, 2}, {1, workerLeaves, 0},
		}, 2, `^2 workers were in the middle of an update at the same time$`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tally := tallyOf(events(test.script...))
			err := tally.verdict(test.final)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("verdict: %v, want none", err)
			case test.want != "" && err == nil:
				t.Errorf("verdict: nil, want %s", test.want)
			case test.want != "" && !regexp.MustCompile(test.want).MatchString(err.Error()):
				t.Errorf("verdict: %v, want %s", err, test.want)
			}
		})
	}
}

// Hand-offs count only if another process waited; a take-over counts from the kill.
func TestDemoTally(t *testing.T) {
	got := tallyOf(events(join([]recorded{
		{1, workerAsks, 0}, {1, workerEnters, 0}, // waits for no other
		{2, workerAsks, 0}, {1, workerWrites, 1}, {1, workerLeaves, 0}, {3, workerEnds, 0},
		{2, workerEnters, 0}, // 2 ms after worker-1 left
		{2, workerWrites, 2}, {2, workerLeaves, 0},
	}, turn(2, 3), // the same worker again
		turn(1, 4), // had not asked before
		[]recorded{
			{2, workerAsks, 0}, {2, workerEnters, 0}, {1, workerAsks, 0}, {3, workerAsks, 0}, {2, workerStalls, 4}, {2, workerKilled, 0},
			{3, workerEnds, 0}, {3, workerEnds, 0}, {1, workerEnters, 0}, // 3 ms after the kill, no hand-over
			{1, workerWrites, 5}, {1, workerLeaves, 0}, {3, workerEnters, 0}, // 1 ms
			{3, workerLost, 0},
		})...))
	if want := []time.Duration{2 * time.Millisecond, time.Millisecond}; len(got.handOvers) != 2 || got.handOvers[0] != want[0] || got.handOvers[1] != want[1] {
		t.Errorf("hand-overs: %v, want %v", got.handOvers, want)
	}
	if want := 3 * time.Millisecond; got.takeover != want {
		t.Errorf("take-over: %v, want %v", got.takeover, want)
	}
	if got.entered != 7 || got.crowd != 1 || got.killed != 2 || len(got.written) != 5 || len(got.lost) != 1 {
		t.Errorf("entered %d, crowd %d, killed %d, written %v, lost %v; want 7, 1, 2, five values, one", got.entered, got.crowd, got.killed, got.written, got.lost)
	}
}

// The summary shows the numbers of the tally and of the file.
func TestDemoSummary(t *testing.T) {
	tally := tallyOf(events(crashed...))
	for final, want := range map[int]string{
		3: `(?m)^lost updates: +0$`,
		2: `(?m)^lost updates: +1 of 3$`,
		5: `(?m)^unknown updates: +2$`,
	} {
		var out bytes.Buffer
		tally.summarize(&out, palette{}, final, 2*time.Second)
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("summary for %d lacks %s:\n%s", final, want, &out)
		}
		if want := `(?m)^take-over: +1\.0 ms after the kill; the lease was 2s$`; !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("summary lacks %s:\n%s", want, &out)
		}
	}
}
