// Stages runs the tests of mortise in the order in which they say the most for the least time.
//
//	stages gate    what each change must pass; it ends with the first stage that is red
//	stages proof   all there is, in hours; it goes on after a red stage, and writes docs/proof.md
//	stages test    what needs nothing but Go: the stage of the gate with that name
//
// The lists are gate.go and proof.go. With -list it shows the stages, with -only NAME,… it runs some of them, and
// nothing is written.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "show the stages and run nothing")
	only := flag.String("only", "", "run only the stages with these names, separated by commas")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: stages [-list] [-only NAME,…] gate|proof|test [ARGUMENTS OF GO TEST]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := begin(flag.Arg(0), *list, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

// begin runs what it is asked for, and returns an error if that is unknown or red.
func begin(what string, list bool, only string, args []string) error {
	r := &runner{what: what, env: os.Environ()}
	var stages []stage
	switch what {
	case "gate":
		stages = gate
	case "proof":
		stages, r.goOn = proof, true
	case "test":
		stages, only = gate, "test"
		r.args = args[1:]
	default:
		flag.Usage()
		return fmt.Errorf("%q is none of gate, proof and test", what)
	}
	if list {
		for _, s := range stages {
			fmt.Printf("%-20s %s\n", s.name, s.shows)
		}
		return nil
	}
	chosen, err := choose(stages, only)
	if err != nil {
		return err
	}
	return r.run(chosen, len(chosen) == len(stages))
}

// choose returns the stages with the names that only has, or all.
func choose(stages []stage, only string) ([]stage, error) {
	if only == "" {
		return stages, nil
	}
	names := strings.Split(only, ",")
	var chosen []stage
	for _, s := range stages {
		if i := slices.Index(names, s.name); i >= 0 {
			chosen, names = append(chosen, s), slices.Delete(names, i, i+1)
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("there is no stage %s; -list shows them", strings.Join(names, ", "))
	}
	return chosen, nil
}
