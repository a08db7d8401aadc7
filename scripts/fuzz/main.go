// Fuzz runs every fuzz target of the packages that it is given for some time, one after the other,
// and sums up how many inputs each has tried. With -list it only names them. An input that fails
// is written to testdata/fuzz of its package, where every later go test tries it again. With -inputs
// it begins again until all targets together have tried so many, or one has failed.
//
//	go run ./scripts/fuzz -time 10s ./...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	list := flag.Bool("list", false, "only name the targets")
	length := flag.Duration("time", 10*time.Second, "how long to run each target")
	only := flag.String("run", "", "run the targets whose names match this `regexp`")
	want := flag.Int("inputs", 0, "go through the targets until all together have tried so many inputs; once if 0")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fail(err)
	}
	all, err := targets(flag.Args())
	if err != nil {
		fail(err)
	}
	all = slices.DeleteFunc(all, func(t target) bool { return !wanted.MatchString(t.name) })
	if *list {
		for _, t := range all {
			fmt.Println(t)
		}
		return
	}
	begin := time.Now()
	total, failures := rounds(all, *want, func(t target) outcome { return t.run(*length) })
	fmt.Printf("%s, %s, %.0f s, %d failed\n", counted(len(all), "target"), counted(total, "input"), time.Since(begin).Seconds(), failures)
	if failures > 0 || len(all) == 0 {
		os.Exit(1)
	}
}

// rounds runs all targets once, and again until they have tried as many inputs as are wanted or some
// have failed. A target that has tried nothing has failed, so that this ends.
func rounds(all []target, want int, run func(target) outcome) (total, failures int) {
	by := make(map[target]int)
	for len(all) > 0 {
		for _, t := range all {
			o := run(t)
			total += o.inputs
			by[t] += o.inputs
			fmt.Printf("%-60s %10d inputs in %4.0f s  %s\n", t, o.inputs, o.took.Seconds(), o.verdict())
			if o.failed {
				failures++
				fmt.Print(o.output)
			}
		}
		if total >= want || failures > 0 {
			break
		}
		fmt.Printf("%d inputs so far, of %d\n", total, want)
	}
	if want > 0 {
		for _, t := range all {
			fmt.Printf("%-60s %10d inputs in all\n", t, by[t])
		}
	}
	return total, failures
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
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
					all = append(all, target{pkg, f.Name.Name})
				}
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

// counted returns a number of things, such as "1 target" or "3 targets".
func counted(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return strconv.Itoa(n) + " " + one
}
