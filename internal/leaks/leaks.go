// Package leaks checks that tests leave no goroutine behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests and then waits until no goroutine is left but those that are ignored. It is
// [goleak.VerifyTestMain] for packages whose tests have connections: those may take a while to end on a busy
// machine, and one that stays is found after a minute.
func VerifyTestMain(m *testing.M, ignored ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find(ignored...) // it looks for two seconds
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(ignored...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}
