package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mortise-go/mortise/driver"
)

func TestReason(t *testing.T) {
	for reply, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'." + inScript: "it is out of memory, so it accepts no writes",
		"-READONLY You can't write against a read only replica.":             "it is a replica, so it accepts no writes",
		"NOREPLICAS Not enough good replicas to write.":                      "too few replicas are connected to it, so it accepts no writes",
		"ERR max number of clients reached":                                  "it has as many clients as it admits",
		"ERR max number of clients + cluster connections reached":            "it has as many clients as it admits",
		before7 + "-READONLY You can't write against a read only replica.":   "it is a replica, so it accepts no writes",
		"LOADING Redis is loading the dataset in memory":                     "it is loading its data",
		"OOMPH":                          "",
		"ERR no such thing":              "",
		"NOAUTH Authentication required": "",
	} {
		err := fmt.Errorf("above: %w", driver.ReplyError(errors.New("the client's"), reply))
		if got := driver.Reason(err); got != want {
			t.Errorf("Reason of %q = %q, want %q", reply, got, want)
		}
	}
	if got := driver.Reason(errors.New("OOM no reply")); got != "" {
		t.Errorf("Reason of another error = %q, want none", got)
	}
}
