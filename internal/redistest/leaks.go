package redistest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests and then waits until no goroutine is left but those that are ignored. It is
// [goleak.VerifyTestMain] for packages whose tests have connections: those may take a while to end on a busy
// machine, and one that stays is found after a minute.
func VerifyTestMain(m *testing.M, ignored ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := poll(func() error { return goleak.Find(ignored...) }); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}
