package main

import (
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// allKept reports whether a lock is only kept: its work has ended before its MinHold is over.
func allKept(s mortise.State) bool {
	for _, h := range s.Holders {
		if !h.Kept() {
			return false
		}
	}
	return len(s.Holders) > 0
}

// keptText describes a lock that is only kept.
func keptText(ttl time.Duration) string {
	if ttl < 0 {
		return "kept by its MinHold; its work has ended"
	}
	return fmt.Sprintf("kept for another %v by its MinHold; its work has ended", duration.Round(ttl))
}
