//go:build interop

package interop

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) != "" {
		os.Exit(runPeer())
	}
	flag.Parse()
	if *core {
		untimed()
	}
	code := m.Run()
	spare.close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
		code = 1
	}
	fmt.Print(proofs.table())
	os.Exit(code)
}
