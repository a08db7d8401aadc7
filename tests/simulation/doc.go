// Package simulation tests locks with random loads on a network with random
// faults, in virtual time. Each run follows from a seed as far as Go allows that
// (see draws). What is checked is that no two holders overlap, that every call
// ends, and that nothing stays in Redis.
package simulation
