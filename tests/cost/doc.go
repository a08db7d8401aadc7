// Package cost tests what holding, waiting, and a pair of Lock and Unlock cost:
// bytes, allocations, goroutines and commands. None of it depends on how fast
// the machine is. A part of it needs redis-server.
package cost
