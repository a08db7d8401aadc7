// Package goals measures what docs/guarantees.md says under Goals: how often each thing that must
// not happen has not happened.
//
// By default a test counts only far enough to show that it works. With -deep it counts as far as the
// goal says, which takes some minutes in all:
//
//	go test ./tests/goals -v -args -deep
//
// Where a goal is about counts, the test runs in virtual time; where it is about the time that a real
// server or the Go scheduler takes, it starts servers.
package goals
