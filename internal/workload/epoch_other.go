//go:build !linux

package workload

import "time"

var start = time.Now()

// epoch returns a time that goroutines of this process have in common. Gaps between processes
// are not known here.
func epoch() time.Time { return start }
