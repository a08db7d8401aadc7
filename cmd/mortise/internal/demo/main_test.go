package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain is also the program of the workers.
func TestMain(m *testing.M) {
	// Under the race detector a program sleeps a second at its end, to catch late races.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=20"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){"demo-worker": workerMain})
}

// leakChecked runs the tests and fails if they leave goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// workerProgram returns the command of a worker of the tests.
func workerProgram(w Worker) *exec.Cmd {
	return exec.Command("demo-worker", strconv.Itoa(w.Number), w.File, w.Server, w.Lease.String())
}

// workerMain is the main function of that command.
func workerMain() {
	number, err1 := strconv.Atoi(os.Args[1])
	lease, err2 := time.ParseDuration(os.Args[4])
	if err1 != nil || err2 != nil {
		panic(fmt.Sprint(err1, err2))
	}
	w := Worker{Number: number, File: os.Args[2], Server: os.Args[3], Lease: lease}
	if err := w.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
