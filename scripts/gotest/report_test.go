package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv("GOMAXPROCS") // the commands that are printed would have it
	m.Run()
}

const one, two = module + "/one", module + "/two"

// lines are what go test -json prints of a package.
func lines(pkg string, actions ...string) string {
	var all strings.Builder
	for _, a := range actions {
		action, name, _ := strings.Cut(a, " ")
		name, printed, _ := strings.Cut(name, ": ")
		line, _ := json.Marshal(event{Action: action, Package: pkg, Test: name, Output: printed})
		all.Write(append(line, '\n'))
	}
	return all.String()
}

// watched follows what is written to the pipe that f is given, and returns what was shown.
func watched(t *testing.T, r *report, f func(in io.Writer)) string {
	t.Helper()
	var shown strings.Builder
	r.out = &shown
	out, in := io.Pipe()
	go func() {
		defer in.Close()
		f(in)
	}()
	r.follow(out)
	return shown.String()
}

func write(t *testing.T, in io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(in, text); err != nil {
		t.Error(err)
	}
}

// A package in which nothing begins or ends for a minute ends the run, however busy another one is, and
// whatever it prints.
func TestPackageThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReport(io.Discard, false)
		quit := make(chan struct{})
		r.quit = func() { close(quit) }
		start := time.Now()
		shown := watched(t, r, func(in io.Writer) {
			write(t, in, lines(one, "start", "run TestStuck", "run TestDone", "pass TestDone")+lines(two, "start"))
			for n := 0; ; n++ {
				select {
				case <-quit:
					write(t, in, lines(one, "output TestStuck: goroutine 7 [select]:\n", "output TestDone: goroutine 8 [select]:\n", "fail"))
					return
				case <-time.After(time.Second):
					write(t, in, lines(two, fmt.Sprint("run Test", n), fmt.Sprint("pass Test", n))+lines(one, "output TestStuck: still here\n"))
				}
			}
		})
		if d := time.Since(start); d < time.Minute || d > 70*time.Second {
			t.Errorf("the run ended after %v, want a minute", d)
		}
		shown += finished(r, false, t)
		for _, want := range []string{"one stands still", "goroutine 7 [select]:", "goroutine 8 [select]:", "not passed: one TestStuck", "not passed: one, which stood still"} {
			if !strings.Contains(shown, want) {
				t.Errorf("it does not show %q:\n%s", want, shown)
			}
		}
	})
}

// A package whose tests have work to do stands still after a minute of a processor, whenever it gets that; one that sleeps, or spins,
// after a minute.
func TestPackageThatGetsNoTime(t *testing.T) {
	for name, c := range map[string]struct {
		got, waited float64 // per second
		after       time.Duration
	}{
		"a fifth of a processor": {0.2, 0.8, 5 * time.Minute},
		"next to nothing":        {0.001, 0.999, 10 * time.Minute},
		"asleep":                 {0.001, 0.001, time.Minute},
		"spinning":               {2, 1, time.Minute},
		"not known":              {0, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReport(io.Discard, false)
				start := time.Now()
				r.cpu = func(string) (got, waited time.Duration) {
					ran := time.Since(start)
					return time.Duration(c.got * float64(ran)), time.Duration(c.waited * float64(ran))
				}
				quit := make(chan struct{})
				r.quit = func() { close(quit) }
				watched(t, r, func(in io.Writer) {
					write(t, in, lines(one, "start", "run TestStuck"))
					<-quit
					write(t, in, lines(one, "fail"))
				})
				if d := time.Since(start); d < c.after || d > c.after+10*time.Second {
					t.Errorf("the run ended after %v, want %v", d, c.after)
				}
				finished(r, false, t)
			})
		})
	}
}

// A run that is killed shows what its tests have printed.
func TestPackageThatIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReport(io.Discard, false)
		killed := make(chan struct{})
		r.kill = sync.OnceFunc(func() { close(killed) })
		start := time.Now()
		watched(t, r, func(in io.Writer) {
			write(t, in, lines(one, "start", "run TestStuck", "output TestStuck: on my way\n"))
			<-killed
		})
		if d := time.Since(start); d < 70*time.Second || d > 80*time.Second {
			t.Errorf("the run was killed after %v, want a minute and ten seconds", d)
		}
		if shown := finished(r, false, t); !strings.Contains(shown, "on my way") || !strings.Contains(shown, "not passed: one TestStuck") {
			t.Errorf("it shows\n%s", shown)
		}
	})
}

// A gotest that was stopped does not take its own pause for one of the tests.
func TestPauseOfGotestItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReport(io.Discard, false)
		r.quit = func() { t.Error("the run was ended") }
		r.out = slow(func() { time.Sleep(time.Minute) })
		out, in := io.Pipe()
		go func() {
			defer in.Close()
			write(t, in, lines(one, "start", "run TestA"))
			for range 10 {
				time.Sleep(55 * time.Second)
				write(t, in, lines(one, "run TestA/part", "pass TestA/part"))
			}
			write(t, in, lines(one, "pass TestA", "pass"))
		}()
		r.follow(out)
		finished(r, true, t)
	})
}

// slow is a terminal that has stopped the program.
type slow func()

func (stopped slow) Write(b []byte) (int, error) {
	stopped()
	return len(b), nil
}

func TestEndlessOutputIsBounded(t *testing.T) {
	var all []string
	for i := range 200_000 {
		all = bounded(append(all, strconv.Itoa(i)))
	}
	if n := len(all); n > 40_000 || all[0] != "0" || all[n-1] != "199999" {
		t.Errorf("%d lines are kept, from %s to %s", n, all[0], all[n-1])
	}
}

// finished sums up, and returns what that shows.
func finished(r *report, want bool, t *testing.T) string {
	t.Helper()
	var shown strings.Builder
	r.out = &shown
	if ok := r.finish(); ok != want {
		t.Errorf("all is well: %t, want %t:\n%s", ok, want, shown.String())
	}
	return shown.String()
}

// While a package is compiled, and after it has ended, nothing stands still.
func TestPackageThatIsSlowToCompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReport(io.Discard, false)
		r.quit = func() { t.Error("the run was ended") }
		watched(t, r, func(in io.Writer) {
			write(t, in, lines(one, "start", "run TestA", "pass TestA", "pass"))
			time.Sleep(10 * time.Minute)
			write(t, in, lines(two, "start", "run TestB"))
			time.Sleep(59 * time.Second)
			write(t, in, lines(two, "pass TestB", "pass"))
			time.Sleep(10 * time.Minute)
		})
		finished(r, true, t)
	})
}

// A test that fails is shown with the command that runs it alone.
func TestCommandThatRunsATestAgain(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"plain":               {[]string{"./..."}, "go test -count=1 -run '^TestA$/^of_1\\+1$' ./one"},
		"with flags":          {[]string{"-timeout=0", "-race", "-tags", "server", "-cpu", "1", "./..."}, "go test -count=1 -race -tags server -run '^TestA$/^of_1\\+1$' ./one"},
		"chosen, with a flag": {[]string{"-count=1", "-run", "^TestA$", "./one", "-args", "-seeds", "7"}, "go test -count=1 -run '^TestA$/^of_1\\+1$' ./one -args -seeds 7"},
	} {
		r := newReport(io.Discard, false)
		r.args = c.args
		watched(t, r, func(in io.Writer) {
			write(t, in, lines(one, "start", "run TestA", "run TestA/of_1+1", "fail TestA/of_1+1", "fail TestA", "fail"))
		})
		shown := finished(r, false, t)
		if !strings.Contains(shown, c.want) || strings.Count(shown, "go test ") != 1 {
			t.Errorf("%s: it shows\n%s\nwant only the command\n%s", name, shown, c.want)
		}
	}
}

// A test that fails by itself, after its parts have passed, has a command as well; so has one that canary judges,
// without the trial.
func TestCommandOfATestWithParts(t *testing.T) {
	for name, c := range map[string]struct {
		actions []string
		want    string
	}{
		"by itself":       {[]string{"run TestA", "run TestA/try_1", "pass TestA/try_1", "fail TestA"}, "-run '^TestA$' ./one\n"},
		"in its trial":    {[]string{"run TestA", "run TestA/b", "run TestA/b/try_2", "fail TestA/b/try_2", "fail TestA/b", "fail TestA"}, "-run '^TestA$/^b$' ./one\n"},
		"below a trial":   {[]string{"run TestA", "run TestA/try_2", "run TestA/try_2/b", "fail TestA/try_2/b", "fail TestA/try_2", "fail TestA"}, "-run '^TestA$/^try_/^b$' ./one\n"},
		"in another part": {[]string{"run TestA", "run TestA/b", "fail TestA/b", "run TestA/c", "pass TestA/c", "fail TestA"}, "-run '^TestA$/^b$' ./one\n"},
	} {
		r := newReport(io.Discard, false)
		watched(t, r, func(in io.Writer) {
			write(t, in, lines(one, append(append([]string{"start"}, c.actions...), "fail")...))
		})
		if shown := finished(r, false, t); !strings.Contains(shown, c.want) || strings.Count(shown, "go test ") != 1 {
			t.Errorf("%s: it shows\n%s\nwant one command, ending in %s", name, shown, c.want)
		}
	}
}

func TestSkippedTestIsAFailure(t *testing.T) {
	r := newReport(io.Discard, false)
	watched(t, r, func(in io.Writer) { write(t, in, lines(one, "start", "run TestA", "skip TestA", "pass")) })
	if shown := finished(r, false, t); !strings.Contains(shown, "not passed: one TestA, skipped") || !strings.Contains(shown, "0 passed, 1 failed in") {
		t.Errorf("it shows\n%s", shown)
	}
}

// What is counted is what is listed: a test that fails in a part is not.
func TestCountIsThatOfTheList(t *testing.T) {
	r := newReport(io.Discard, false)
	shown := watched(t, r, func(in io.Writer) {
		write(t, in, lines(one, "start", "run TestA", "run TestA/b", "run TestA/b/c", "fail TestA/b/c", "run TestA/b/d", "fail TestA/b/d", "fail TestA/b",
			"run TestA/e", "pass TestA/e", "fail TestA", "run TestF", "fail"))
	})
	shown += finished(r, false, t)
	if n := strings.Count(shown, "not passed: "); n != 3 || !strings.Contains(shown, "1 passed, 3 not\n") || !strings.Contains(shown, "1 passed, 3 failed in") {
		t.Errorf("it lists %d, want 3, and 3 counted twice:\n%s", n, shown)
	}
}

// A package that fails although no test of it does, as in its TestMain, is listed as well.
func TestPackageThatFailsByItself(t *testing.T) {
	r := newReport(io.Discard, false)
	watched(t, r, func(in io.Writer) { write(t, in, lines(one, "start", "run TestA", "pass TestA", "fail")) })
	if shown := finished(r, false, t); !strings.Contains(shown, "not passed: one\n            go test -count=1 ./one\n1 passed, 1 failed in") {
		t.Errorf("it shows\n%s", shown)
	}
}

// A package that does not compile, or that vet refuses, is listed with what was said of it, and before those that need it.
func TestPackageThatIsNotBuilt(t *testing.T) {
	r := newReport(io.Discard, false)
	shown := watched(t, r, func(in io.Writer) {
		for _, e := range []event{
			{Action: "build-output", ImportPath: two + "_test [" + two + ".test]", Output: "# " + two + "\n"},
			{Action: "build-output", ImportPath: two + "_test [" + two + ".test]", Output: "two/two.go:7:2: suspect or\n"},
			{Action: "build-output", ImportPath: two, Output: "two/two.go:7:2: suspect or\n"},
			{Action: "start", Package: one},
			{Action: "output", Package: one, Output: "FAIL\t" + one + " [build failed]\n"},
			{Action: "fail", Package: one, FailedBuild: two + "_test [" + two + ".test]"},
			{Action: "start", Package: two},
			{Action: "fail", Package: two, FailedBuild: two + "_test [" + two + ".test]"},
		} {
			line, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			write(t, in, string(line)+"\n")
		}
	})
	if strings.Count(shown, "suspect or") != 2 || !strings.Contains(shown, "two                                not built\n") {
		t.Errorf("it shows\n%s", shown)
	}
	const want = `not passed: two, not built
            two/two.go:7:2: suspect or
            go test -count=1 ./two
not passed: one, not built: it needs two
            go test -count=1 ./one
0 passed, 2 failed in`
	if shown := finished(r, false, t); !strings.HasPrefix(shown, want) {
		t.Errorf("at the end it shows\n%s\nwant\n%s", shown, want)
	}
}

// The summary has the counts, and the margins of tests that passed as well.
func TestSummary(t *testing.T) {
	r := newReport(io.Discard, false)
	watched(t, r, func(in io.Writer) {
		write(t, in, lines(one, "start", "run TestA", "output TestA:     a_test.go:7: margin: the next holder: 1s of 3s, the machine late by 0s\n", "pass TestA", "run TestB", "fail TestB", "fail"))
	})
	finished(r, false, t)
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("it left %v, %v, want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var got summary
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Passed != 1 || got.Failed != 1 || !slices.Equal(got.Margins, []string{"one TestA: the next holder: 1s of 3s, the machine late by 0s"}) {
		t.Errorf("got %s", text)
	}
}
