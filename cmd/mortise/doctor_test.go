package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
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

func TestSentinelsOfAURL(t *testing.T) {
	for _, test := range []struct {
		url    string
		want   []string
		master string
	}{
		{"redis://host:1", nil, ""},
		{"redis-sentinel://u:p@a,b:2,[::1]/3?master=m", []string{"redis://a:26379", "redis://b:2", "redis://[::1]:26379"}, "m"},
		{"rediss-sentinel://:p@ss@a?master=m&sentinel_password=x%2Fy&tls_insecure=true", []string{"rediss://:x%2Fy@a:26379?tls_insecure=true"}, "m"},
		{"redis-sentinel://a?sentinel_user=s&sentinel_password=p&master=m", []string{"redis://s:p@a:26379"}, "m"},
	} {
		addrs, urlOf, master := sentinelsOf(test.url)
		var got []string
		for _, addr := range addrs {
			got = append(got, urlOf(addr))
		}
		if !slices.Equal(got, test.want) || master != test.master {
			t.Errorf("%s: %q, %q, want %q, %q", test.url, got, master, test.want, test.master)
		}
	}
}

func TestCountsOfFindings(t *testing.T) {
	for want, counts := range map[string]map[doctor.Severity]int{
		"1 critical, 2 warnings, 3 unknown, 2 info, 1 accepted, 24 ok": {doctor.OK: 24, doctor.Info: 2, doctor.Unknown: 3, doctor.Warning: 2, doctor.Critical: 1, "accepted": 1},
		"1 warning, 2 ok": {doctor.Warning: 1, doctor.OK: 2},
	} {
		if got := countsText(counts); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
