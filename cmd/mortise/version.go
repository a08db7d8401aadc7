package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// What a build sets with -ldflags, as goreleaser does by default. The rest of the builds know it from
// the build information.
var (
	version string
	commit  string
	date    string // of the commit or the build
)

func versionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version and commit of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "mortise version "+buildVersion())
			return err
		},
	}
	a.withoutRedis(cmd)
	return cmd
}

// buildVersion describes the build: its version, and as far as they are known the commit, its time and the
// version of Go.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describeBuild(version, commit, date, info)
}

func describeBuild(version, commit, date string, info *debug.BuildInfo) string {
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if version == "" {
		version = info.Main.Version
	}
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	if commit == "" {
		commit = set["vcs.revision"]
	}
	if date == "" {
		date = set["vcs.time"]
	}
	var more []string
	if commit != "" {
		if set["vcs.modified"] == "true" {
			commit += ", modified"
		}
		more = append(more, "commit "+commit)
	}
	for _, part := range []string{date, info.GoVersion} {
		if part != "" {
			more = append(more, part)
		}
	}
	if len(more) == 0 {
		return version
	}
	return version + " (" + strings.Join(more, ", ") + ")"
}
