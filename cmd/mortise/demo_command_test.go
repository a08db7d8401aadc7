package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestDemoUsage(t *testing.T) {
	testscript.Run(t, testscript.Params{Files: []string{"testdata/demo-usage.txt"}, RequireExplicitExec: true})
}
