// Package terms has what a caller asks of a lock: for how long (options.go), and on how many replicas (durability.go). It is values alone: it
// knows neither clients nor leases, and has no mutex.
package terms
