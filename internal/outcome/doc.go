// Package outcome has what calls come to: sentinel errors and what they mean of a driver's error (sentinels.go), why Redis refused
// (refusal.go), why a wait has ended (ended.go), the context of a wait with a limit of its own (context.go), and the events that observers
// get (event.go).
//
// It knows neither clients nor locks, has no state but values, and no mutex. A wait that ends is a value until its call returns: then
// [WhyEnded] puts it into words, with what it was for.
package outcome
