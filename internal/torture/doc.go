// Package torture is the client's side of `make torture`: a process that takes locks of any
// library, works under them, and tells a witness in another process what it believes.
//
// The witness has no Redis. It keeps a register for each thing that is locked, hears of each hold
// as long as the library says that it is valid, and refuses writes whose fencing token is older
// than one that it has seen. What the clients say is compared at the end: their times are those
// of one monotonic clock, which all processes of a machine share.
//
// Package tests/torture is the other side: it starts the clients, the servers and the faults. A
// client of another library is a program that calls [Run] with a [Subject] of its own.
package torture
