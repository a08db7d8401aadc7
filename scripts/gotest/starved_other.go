//go:build !linux

package main

import "time"

// cpuOf returns nothing: here it is not known how long other processes have run.
func cpuOf(int, string) (got, waited time.Duration) { return 0, 0 }
