// Stages runs the tests of mortise in the order in which they say the most for the least time.
//
//	stages [-list] [-only NAME,…] gate     what each change must pass; it ends with the first stage that is red
//	stages [-list] [-only NAME,…] proof    all there is, in hours; it goes on after a red stage, and writes docs/proof.md
//	stages -page                           the page of the proof, from what has run at this commit
//	stages test [ARGUMENTS OF GO TEST]     what needs nothing but Go: the stage of the gate with that name
//
// The lists are gate.go and proof.go. With -list it shows the stages and what they run, with -only it runs some of them. The output of
// each stage is left in bin/gate or bin/proof. docs/proof.md is written when each stage of the proof has run at a commit, in
// one go or not.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "show the stages and run nothing")
	only := flag.String("only", "", "run only the stages with these names, separated by commas")
	write := flag.Bool("page", false, "write the page of the proof from what has run at this commit, and run nothing")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, `usage: stages [-list] [-only NAME,…] gate     what each change must pass
       stages [-list] [-only NAME,…] proof    all there is
       stages -page                           the page of the proof
       stages test [ARGUMENTS OF GO TEST]     what needs nothing but Go`)
		flag.PrintDefaults()
	}
	flag.Parse()
	for _, of := range []string{"ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"} {
		_ = os.Unsetenv(of) // a make that a stage runs would take them for its own
	}
	var err error
	if *write {
		err = page(proof)
	} else {
		err = begin(*list, *only, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

// begin runs what it is asked for, and returns an error if that is unknown or red.
func begin(list bool, only string, args []string) error {
	stages, err := ask(list, only, args)
	if err != nil {
		return err
	}
	if list {
		for _, s := range stages {
			fmt.Print(s.short())
		}
		return nil
	}
	r := &runner{what: args[0], env: os.Environ()}
	if r.what == "test" {
		r.args = args[1:]
	}
	r.goOn = r.what == "proof"
	return r.run(stages)
}

// ask returns the stages that the words of the command line name.
func ask(list bool, only string, args []string) ([]stage, error) {
	switch {
	case len(args) == 0:
		return nil, errors.New("say what to run: gate, proof or test")
	case args[0] == "test" && (list || only != ""):
		return nil, errors.New("-list and -only are for gate and proof")
	case args[0] == "test":
		return choose(gate, "test")
	case args[0] != "gate" && args[0] != "proof":
		return nil, fmt.Errorf("%q is none of gate, proof and test; the names after -only have no spaces between them", args[0])
	case len(args) > 1:
		return nil, fmt.Errorf("%q comes after %s: -list and -only come before it, and there is nothing else", args[1], args[0])
	case args[0] == "proof":
		return choose(proof, only)
	}
	return choose(gate, only)
}

// choose returns the stages with the names that only has, or all.
func choose(stages []stage, only string) ([]stage, error) {
	if only == "" {
		return stages, nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.ContainsFunc(stages, func(s stage) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no stage %q; -list shows them", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return !slices.Contains(names, s.name) }), nil
}
