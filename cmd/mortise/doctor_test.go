package main

import (
	"slices"
	"testing"

	"github.com/mortise-go/mortise/doctor"
)

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
