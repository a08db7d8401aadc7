//go:build proof

package main

import (
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// On a cluster the locks of a --multi have an owner each.
func TestNestedOnACluster(t *testing.T) {
	cluster := redistest.Cluster(t, 0)
	for _, line := range []string{
		"run a --multi b,c -- mortise run -n a -- mortise run -n b -- mortise run -n c --multi a -- echo ran",
		"run a -- mortise run -n a --multi b,c -- mortise run -n c --multi b,a -- echo ran",
	} {
		s := begin(t, cluster.Addrs()[0], strings.Fields(line)...)
		s.wantStatus(t, 0)
		if text := s.out.text(); text != "ran\n" {
			t.Errorf("%s: it wrote %q, want that it ran", line, text)
		}
	}
}
