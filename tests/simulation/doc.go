// Package simulation tests all kinds of lock with random loads on networks and servers with random
// faults, in virtual time, with package mortisetest.
//
// A seed decides a plan: what each client does, and what goes wrong. [world] carries it out, and
// lists what it finds wrong: what a mortisetest.History says, calls that take too long, locks that
// cannot be had afterwards, keys that stay. A plan that fails is shrunk, and told in words.
//
//	go test ./tests/simulation -run '^TestSimulation$' -args -seeds 5000
//	go test ./tests/simulation -run '^TestSimulation$' -args -replay 17
//
// Each run follows from its seed as far as Go allows that (see draws): which goroutine runs next
// does not, so -replay runs a seed several times.
package simulation
