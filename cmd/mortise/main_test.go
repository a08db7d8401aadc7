package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// patient is in the environment of sessions, and so may their servers: programs wait a minute for these, and to complete names.
const patient = "MORTISE_PATIENT"

// programs are the programs that the tests run.
var programs = map[string]func(){"mortise": func() {
	if os.Getenv(patient) != "" {
		completionLimit, asking.RetryFor = time.Minute, time.Minute
	}
	main()
}}

func TestMain(m *testing.M) {
	// Under the race detector a program sleeps a second at its end, to catch late races. The tests
	// run hundreds of programs.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=20"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, programs)
}

// leakChecked runs the tests and fails if they leave goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		// A closed client still waits for a refresh that it has scheduled.
		err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
