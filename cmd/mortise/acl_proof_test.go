//go:build proof

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// A user that is made with what acl prints may do what the rule is for, and nothing else is refused: the server
// writes no refusal to its log. That each kind of lock can do all it does with it is tested in tests/server.
func TestUserOfAPrintedRule(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	work := []string{"sh", "-c", "true"}
	for kinds, lines := range map[string][][]string{
		"lock,records":           {append([]string{"run", "job", "--"}, work...), append([]string{"run", "--multi", "b,c", "a", "--"}, work...)},
		"fair,records":           {append([]string{"run", "--fair", "job", "--"}, work...)},
		"rw,records":             {append([]string{"run", "--read", "job", "--"}, work...), append([]string{"run", "--write", "job", "--"}, work...)},
		"fenced,records":         {append([]string{"run", "--fence", "job", "--"}, work...)},
		"fenced,tokens":          {{"tokens", "--idle", "0"}},
		"election,records":       {append([]string{"elect", "job", "--"}, work...)},
		"semaphore":              {{"latch", "job", "set", "2"}, {"latch", "job", "down"}},
		"permits,records":        {append([]string{"run", "--sem", "--limit", "2", "job", "--"}, work...)},
		"lock,inspect,records":   {{"show", "job"}, {"unlock", "job", "--force", "--yes"}},
		"look":                   {{"show", "job"}, {"ls"}, {"who"}, {"history", "job"}, {"watch", "--for", "1s"}},
		"all,list":               {append([]string{"run", "job", "--"}, work...), {"ls"}, {"who"}},
		"lock,fair,rw,semaphore": {append([]string{"run", "--fair", "job", "--"}, work...)},
	} {
		t.Run(kinds, func(t *testing.T) {
			s.Must(t, "FLUSHALL")
			_, _ = s.Do("ACL", "DELUSER", "worker")
			printed, err := exec.Command("mortise", "--prefix", "app:", "acl", "--kind", kinds, "--user", "worker").Output()
			if err != nil {
				t.Fatal(err)
			}
			s.Must(t, redistest.Rules(t, strings.Fields(string(printed))...)...)
			s.Must(t, "ACL", "LOG", "RESET")
			run := func(args ...string) ([]byte, error) {
				cmd := exec.Command("mortise", args...)
				cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=redis://worker:SECRET@"+s.Addr(), "MORTISE_PREFIX=app:")
				return cmd.CombinedOutput()
			}
			for _, args := range lines {
				if out, err := run(args...); err != nil {
					t.Errorf("mortise %q: %v\n%s", args, err, out)
				}
			}
			for _, entry := range s.Must(t, "ACL", "LOG").([]any) {
				if fields := entry.([]any); !strings.Contains(strings.ToLower(printable(fields)), "cluster") && !strings.Contains(strings.ToLower(printable(fields)), "setinfo") {
					t.Errorf("refused: %v", fields)
				}
			}
			if kinds == "look" {
				if out, err := run(append([]string{"run", "-n", "job", "--"}, work...)...); err == nil {
					t.Errorf("a user who only looks could take a lock: %s", out)
				}
			}
			cmd := exec.Command("mortise", "run", "-n", "job", "--", "true")
			cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=redis://worker:SECRET@"+s.Addr(), "MORTISE_PREFIX=other:")
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("the user could take a lock outside its prefix: %s", out)
			}
		})
	}
}

func printable(fields []any) string {
	var b strings.Builder
	for _, f := range fields {
		if s, ok := f.(string); ok {
			b.WriteString(s + " ")
		}
	}
	return b.String()
}
