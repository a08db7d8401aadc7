// Servers runs the tests that need a real server on servers of many versions,
// old and new, and writes the table of docs/servers.md from the runs.
//
//	go run ./scripts/servers list              what there is, and where it comes from
//	go run ./scripts/servers fetch [NAME…]     fetches them, and shows their programs
//	go run ./scripts/servers run [NAME…]       runs the tests on them, and writes the table
//	go run ./scripts/servers table             writes the table from the runs that were kept
//
// Programs and results are kept in .cache/servers, which git ignores. What is
// fetched has the SHA-256 that this program names, or is not used. All
// binaries are for Linux on amd64.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	verb := "run"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	chosen, err := choose(args)
	if err != nil {
		return err
	}
	switch verb {
	case "list":
		for _, s := range chosen {
			fmt.Printf("%-14s %s\n", s.name, s.from())
		}
		return nil
	case "fetch":
		for _, s := range chosen {
			path, err := s.fetch()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Printf("%-14s %s\n", s.name, path)
		}
		return nil
	case "run":
		return errorsOf(test(chosen), writeTable())
	case "table":
		return writeTable()
	}
	return fmt.Errorf("no such verb: %s; use list, fetch, run or table", verb)
}

// errorsOf returns the first error.
func errorsOf(errs ...error) error { return cmp.Or(errs...) }

// choose returns the named servers, or all.
func choose(names []string) ([]server, error) {
	if len(names) == 0 {
		return servers, nil
	}
	var chosen []server
	for _, name := range names {
		i := slices.IndexFunc(servers, func(s server) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no such server: %s; `go run ./scripts/servers list` shows all", name)
		}
		chosen = append(chosen, servers[i])
	}
	return chosen, nil
}
