package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// isKept reports whether owner is that of a lock that is only kept: its command has ended before the
// time of --min-hold.
func isKept(owner string) bool {
	return strings.HasSuffix(strings.TrimSuffix(owner, ":write"), ":kept")
}

// allKept reports whether a lock is only kept.
func allKept(s mortise.State) bool {
	for _, h := range s.Holders {
		if !isKept(h.Owner) {
			return false
		}
	}
	return len(s.Holders) > 0
}

// keptText describes a lock that is only kept.
func keptText(ttl time.Duration) string {
	if ttl < 0 {
		return "kept by --min-hold; its command has ended"
	}
	return fmt.Sprintf("kept for another %v by --min-hold; its command has ended", duration.Round(ttl))
}
