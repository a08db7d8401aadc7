//go:build proof

package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/memredis"
)

// The page about the command shows what it really prints: every command in its console blocks is run.
// Only numbers, times and ids may differ.
func TestCommandPageShowsWhatTheCommandPrints(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ran := 0
	for _, c := range consoleOf(string(text)) {
		ran++
		command := strings.ReplaceAll(c.line, "go run ./cmd/mortise", "mortise")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a hang is told with what was printed
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.WaitDelay = limit // its children may hold the pipe
		cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=redis://"+server.Addr())
		if strings.Contains(command, "demo") {
			cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=")
		}
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("$ %s: %v\n%s", command, err, got)
			continue
		}
		printed := make(map[string]bool)
		for _, line := range shapes(string(got)) {
			printed[line] = true
		}
		for _, line := range shapes(c.prints) {
			if !printed[line] {
				t.Errorf("$ %s: the page shows %q, but it printed\n%s", command, line, got)
			}
		}
	}
	if ran < 2 {
		t.Errorf("%d commands of the page were run, want two at least: is it read right?", ran)
	}
}

var (
	ids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	times  = regexp.MustCompile(`([0-9]+h)?([0-9]+m)?[0-9.]+ ?(µs|ms|s)\b`)
	digits = regexp.MustCompile(`[0-9]+`)
	spaces = regexp.MustCompile(` +`)
)

// shapes returns the lines of a text without the parts that differ from run to run.
func shapes(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = ids.ReplaceAllString(line, "ID")
		line = times.ReplaceAllString(line, "TIME")
		line = digits.ReplaceAllString(line, "N")
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return lines
}
