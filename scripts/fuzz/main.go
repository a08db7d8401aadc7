// Fuzz runs every fuzz target of the packages that it is given for some time, one after the other,
// and sums up how many inputs each has tried. With -list it only names them. An input that fails
// is written to testdata/fuzz of its package, where every later go test tries it again.
//
//	go run ./scripts/fuzz -time 10s ./...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	list := flag.Bool("list", false, "only name the targets")
	length := flag.Duration("time", 10*time.Second, "how long to run each target")
	only := flag.String("run", "", "run the targets whose names match this `regexp`")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fail(err)
	}
	all, err := targets(flag.Args())
	if err != nil {
		fail(err)
	}
	var total, failures, ran int
	begin := time.Now()
	for _, t := range all {
		switch {
		case !wanted.MatchString(t.name):
			continue
		case *list:
			fmt.Println(t)
			continue
		}
		ran++
		o := t.run(*length)
		total += o.inputs
		fmt.Printf("%-60s %10d inputs in %4.0f s  %s\n", t, o.inputs, o.took.Seconds(), o.verdict())
		if o.failed {
			failures++
			fmt.Print(o.output)
		}
	}
	if *list {
		return
	}
	fmt.Printf("%d targets, %d inputs, %.0f s, %d failed\n", ran, total, time.Since(begin).Seconds(), failures)
	if failures > 0 || ran == 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "fuzz:", err)
	os.Exit(1)
}

// target is a fuzz target of a package.
type target struct{ pkg, name string }

const module = "github.com/mortise-go/mortise"

func (t target) String() string {
	return strings.TrimPrefix(strings.TrimPrefix(t.pkg, module), "/") + " " + t.name
}

var function = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// targets returns the fuzz targets in packages, also those that need a server.
func targets(packages []string) (all []target, err error) {
	args := append([]string{"list", "-tags", "server", "-f", "{{.ImportPath}}\t{{.Dir}}"}, packages...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, found := range function.FindAllSubmatch(text, -1) {
				all = append(all, target{pkg, string(found[1])})
			}
		}
	}
	return all, nil
}

// outcome is how the run of a target has ended.
type outcome struct {
	inputs int
	took   time.Duration
	failed bool
	output string
}

func (o outcome) verdict() string {
	switch {
	case o.failed && o.inputs == 0:
		return "FAILED before the first input"
	case o.failed:
		return "FAILED"
	}
	return "ok"
}

func (t target) run(length time.Duration) outcome {
	begin := time.Now()
	cmd := exec.Command("go", "test", "-tags", "server", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", length.String(), "-fuzzminimizetime", "100x", t.pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	o := read(out.String(), err == nil)
	o.took = time.Since(begin)
	return o
}

// tried matches the number of inputs so far, also of those that are stored and come first: a
// slow target may have no time for more.
var tried = regexp.MustCompile(`(?:execs|baseline coverage): (\d+)`)

// read reads what go test prints. A target that has tried nothing has failed: it would fail nobody.
func read(output string, passed bool) outcome {
	o := outcome{output: output}
	if counts := tried.FindAllStringSubmatch(output, -1); len(counts) > 0 {
		o.inputs, _ = strconv.Atoi(counts[len(counts)-1][1])
	}
	// The end of the time can hit go test between two inputs, and then it says so.
	ended := strings.Contains(output, "context deadline exceeded") && !strings.Contains(output, "Failing input written to")
	o.failed = o.inputs == 0 || !passed && !ended
	return o
}
