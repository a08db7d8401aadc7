package script

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A pattern that may begin anywhere takes a time that grows with the square of a text that others wrote. So it begins at the
// beginning, unless the text is our own or an error of Redis', or the pattern is a single class that needs no way back.
func TestPatternsAreAnchored(t *testing.T) {
	reply := regexp.MustCompile(`redis\.p?call\([^()]*\)`)
	call := regexp.MustCompile(`string\.(match|find|gmatch|gsub)\((.*?), '([^']*)'(, 1, true)?`)
	ours := regexp.MustCompile(`^(ARGV\[.*\]|announced and ARGV\[2\] or ''|\w+\.err)$`)
	linear := []string{"%x%x", " (%d+)$"} // each place belongs to one attempt
	found := 0
	err := fs.WalkDir(sources, ".", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(reply.ReplaceAllString(string(text), "reply"), -1) {
			if found++; m[4] == "" && !strings.HasPrefix(m[3], "^") && !ours.MatchString(m[2]) && !slices.Contains(linear, m[3]) {
				t.Errorf("%s: string.%s looks for %q anywhere in %s: begin it with ^", path, m[1], m[3], m[2])
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d patterns were found, want 20 at least, %v", found, err)
	}
}
