package script

import (
	"regexp"
	"strings"
	"testing"
)

// A string may be half a gigabyte long, whoever wrote it, and Redis stands still while a script reads it. So scripts
// read its beginning, and the rest only where the beginning is empty.
func TestScriptsReadNoLongStrings(t *testing.T) {
	files, err := sources.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	reads := regexp.MustCompile(`'(get|getset|getdel|getex|mget|substr|lcs|dump|sort|sort_ro)'`)
	afterEmpty := regexp.MustCompile(`~= ''|== ''`)
	ranges := 0
	for _, f := range files {
		text := sourceOf(strings.TrimSuffix(f.Name(), ".lua"))
		ranges += strings.Count(text, "'getrange'")
		for line := range strings.Lines(text) {
			if reads.MatchString(line) && !afterEmpty.MatchString(line) {
				t.Errorf("%s reads a whole string: %s; read as much as can be right, with getrange", f.Name(), strings.TrimSpace(line))
			}
		}
	}
	if ranges < 10 {
		t.Errorf("%d places read the beginning of a string, want ten or more: does this test still see them?", ranges)
	}
}
