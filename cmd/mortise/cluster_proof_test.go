//go:build proof

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/redistest"
)

// With one of three masters frozen or dead, the locks of the others are listed, and the missing one is named.
func TestListWithoutAMaster(t *testing.T) {
	for what, take := range map[string]func(t *testing.T, s *redistest.Server){
		"frozen": func(t *testing.T, s *redistest.Server) { s.Pause(t) },
		"dead":   func(_ *testing.T, s *redistest.Server) { s.Kill() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 0)
			d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Addrs()[0])
			if err != nil {
				t.Fatal(err)
			}
			c := mortise.New(d, &mortise.Options{Identity: mortise.Identity{Host: "api-7"}})
			t.Cleanup(func() { _ = c.Close() })
			gone := cluster.Masters[2]
			var living, missing []string
			for i := range 30 {
				name := fmt.Sprint("job:", i)
				if _, _, err := c.Lock(name).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if cluster.Owner(t, name) == gone {
					missing = append(missing, name)
				} else {
					living = append(living, name)
				}
			}
			take(t, gone)
			for _, command := range []string{"ls", "who", "doctor", "show job:0", "show job:1", "show job:2"} {
				s := begin(t, cluster.Addrs()[0], strings.Fields(command)...)
				code := s.status(t)
				t.Logf("%s: %d, %d living\n%s", command, code, len(living), s.out.text())
			}
			_ = missing
		})
	}
}
