package rig

import (
	"runtime"
	"testing"
)

func TestPinnedWorkersHaveOneCPU(t *testing.T) {
	trial, _ := trialOf("cpus", spec(0))
	trial.Pin = true
	o, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Result.Failures > 0 {
		t.Errorf("%d failures: %s", o.Result.Failures, o.Result.Failure)
	}
	trial, _ = trialOf("cpus", spec(0))
	o, err = trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if runtime.NumCPU() > 1 && o.Result.Failures == 0 {
		t.Error("one CPU is all that is left after a pinned trial")
	}
}
