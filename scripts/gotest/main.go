// Gotest runs go test with the arguments that it is given, and says what is
// going on: the package, how many tests have passed, and the test that has run
// longest. It shows a line for each package that has ended, what the package
// printed outside its tests, and all that a failed test printed, with the
// command that runs it alone. A skipped test has tested nothing: it is a failure.
//
// If a package stands still, which is to say that nothing in it has begun or
// ended for a minute, gotest ends the run and shows its goroutines. On a machine
// that is busy with other things a minute is what the package had of it.
//
// Arguments of its own come first, and end with --:
//
//	gotest [-stall 5m] -- [ARGUMENTS OF GO TEST]
//
// In the folder that MORTISE_SUMMARIES names, if it is set, each run leaves a file with its counts and margins.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/scripts/group"
)

func main() {
	stall := flag.Duration("stall", time.Minute, "end the run if nothing has begun or ended in a package for so long")
	args := os.Args[1:]
	if end := slices.Index(args, "--"); end >= 0 {
		_ = flag.CommandLine.Parse(args[:end]) // it exits if it fails
		args = args[end+1:]
	}
	ok, err := run(args, *stall)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run runs go test, and reports whether all is well.
func run(args []string, stall time.Duration) (ok bool, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = group.Own()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	forward := heedSignals()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	go forward(cmd.Process)
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	r := newReport(os.Stdout, terminal)
	r.args = args
	r.stall = stall
	r.quit = func() { group.Signal(cmd.Process, syscall.SIGQUIT) } // the tests print their goroutines
	r.cpu = func(pkg string) (got, waited time.Duration) { return cpuOf(cmd.Process.Pid, pkg) }
	r.kill = func() { group.Signal(cmd.Process, syscall.SIGKILL) }
	r.follow(out)
	err = cmd.Wait()
	r.kill() // what tests have left behind
	ok = r.finish()
	if dir := os.Getenv("MORTISE_SUMMARIES"); dir != "" {
		if err := r.write(dir); err != nil {
			return false, err
		}
	}
	return ok && err == nil, nil
}

// heedSignals makes the process receive signals that it ignores, as under nohup or in the background of a script: the
// tests would inherit that, and so would the programs that they send signals to. It returns what
// passes signals on to the group of a process, which the terminal does not know.
func heedSignals() (forward func(*os.Process)) {
	heard := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // this process still does not end by them
		} else {
			signal.Notify(heard, s)
		}
	}
	return func(p *os.Process) {
		for s := range heard {
			group.Signal(p, s.(syscall.Signal))
		}
	}
}
