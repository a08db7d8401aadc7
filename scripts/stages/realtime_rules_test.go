package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Each case is a file of tests, with a comment want on each line that must be found.
var realTimeCases = map[string]string{
	"sleeps and comparisons": `
func TestA(t *testing.T) {
	start := time.Now()
	time.Sleep(time.Second) // want
	if took := time.Since(start); took > time.Second { // want
		t.Error(took)
	}
	took := time.Now().Sub(start)
	for time.Since(start) < time.Minute {
	}
	if took*2 <= time.Second { // want
		t.Error(took)
	}
	if n := 3; n > 2 {
		t.Error(n)
	}
}`,
	"other clocks": `
func TestA(t *testing.T) {
	<-time.NewTimer(time.Second).C // want
	<-time.Tick(time.Second)
	for time.Now().Before(deadline) { // want
	}
	if start.After(other) {
	}
	time.NewTimer(time.Minute)
	canary.Judge(t, nil) // want
}`,
	"an event, awaited for long enough": `
func TestA(t *testing.T) {
	select {
	case <-make(chan int):
	case <-time.After(time.Minute):
	}
	select {
	case <-make(chan int):
	case <-time.After(59 * time.Second): // want
	}
}`,
	"virtual time": `
func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) })
	bubble(t, func(t *testing.T) { wait(); fake{}.Wait() })
	for name, each := range map[string]func(){"a": func() { time.Sleep(time.Second) }, "b": later(time.Second)} {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T) { each() }) })
	}
}
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
func wait() { time.Sleep(time.Second) }
func later(d time.Duration) func() { return func() { time.Sleep(d) } }
type fake struct{}
func (fake) Wait() { time.Sleep(time.Second) }`,
	"what a test calls": `
func TestA(t *testing.T) { f := wait; f(); fake{}.Wait() }
func wait() { time.Sleep(time.Second) } // want
type fake struct{}
func (fake) Wait() { time.Sleep(time.Second) } // want
type other struct{}
func (other) Wait() { time.Sleep(time.Second) }
func unused() { time.Sleep(time.Second) }`,
	"an example, and a fuzz target": `
func ExampleA() { time.Sleep(time.Second) } // want
func FuzzA(f *testing.F) { time.Sleep(time.Second) } // want
func BenchmarkA(b *testing.B) { time.Sleep(time.Second) }`,
}

func TestRealTimeIsFound(t *testing.T) {
	for name, code := range realTimeCases {
		code = "package a\n" + code + "\n"
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Chdir("../..")
			found := realTime(t, judged{dir: dir, runs: func(string) bool { return true }})
			for i, line := range strings.Split(code, "\n") {
				is := false
				for _, f := range found {
					is = is || strings.Contains(f, "a_test.go:"+strconv.Itoa(i+1)+":")
				}
				if want := strings.HasSuffix(line, "// want"); is != want {
					t.Errorf("line %d, %q: found: %t, want %t", i+1, line, is, want)
				}
			}
		})
	}
}
