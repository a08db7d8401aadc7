//go:build proof

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/internal/redistest"
)

// reportOf runs the command, whatever its exit code.
func reportOf(t *testing.T, url string) (r doctor.Report) {
	t.Helper()
	cmd := exec.Command("mortise", "doctor", "--json")
	cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL="+url)
	out, _ := cmd.Output() // the code is that of the worst
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// With the URL of sentinels, each of them is asked as well.
func TestDoctorAsksTheSentinels(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, 1)
	addrs := set.Addrs()
	url := "redis-sentinel://" + strings.Join(addrs, ",") + "?master=" + redistest.SentinelName
	check := func(severity doctor.Severity, words ...string) {
		t.Helper()
		r := reportOf(t, url)
		found := r.Find("sentinels")
		if len(found) != 1 || found[0].Severity != severity {
			t.Fatalf("found %+v, want %s", found, severity)
		}
		for _, word := range words {
			if !strings.Contains(found[0].Found+found[0].Command, word) {
				t.Errorf("%+v is without %s", found[0], word)
			}
		}
	}
	check(doctor.OK, set.Master(t).Addr(), "3 of 3 answer")
	set.Sentinels[2].Kill()
	check(doctor.Warning, addrs[2], "sentinel master "+redistest.SentinelName)
	set.Sentinels[1].Kill()
	check(doctor.Critical, "1 of 3")
}
