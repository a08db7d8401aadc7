package main

import (
	"runtime/debug"
	"testing"
)

func TestDescribeBuild(t *testing.T) {
	checkout := &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.time", Value: "2026-11-23T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}}}
	for _, test := range []struct {
		name                  string
		version, commit, date string
		info                  *debug.BuildInfo
		want                  string
	}{
		{"a checkout", "", "", "", checkout, "devel (commit 0123abc, modified, 2026-11-23T10:00:00Z, go1.26.1)"},
		{"go install", "", "", "", &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3 (go1.26.1)"},
		{"goreleaser", "1.2.3", "4567def", "2026-11-24", &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"}}, "1.2.3 (commit 4567def, 2026-11-24, go1.26.1)"},
		{"nothing is known", "", "", "", &debug.BuildInfo{}, "devel"},
	} {
		if got := describeBuild(test.version, test.commit, test.date, test.info); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
