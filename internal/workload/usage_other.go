//go:build !unix

package workload

// cpu returns 0: how to ask differs here, and nothing depends on it.
func cpu() float64 { return 0 }
