package duration

import (
	"testing"
	"time"
)

// A duration is never negative, and what the command shows of it means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "90", "1.5", ".5", "90s", "1m30s", "-1s", "-0", "1e3", "9223372036", "9223372037", "9223372036.854775807", "2562047h47m16.854775807s", "1ns", "0x10", "NaN", "inf", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			if d != 0 {
				t.Errorf("Parse(%q) = %v with the error %v", text, d, err)
			}
			return
		}
		if d < 0 {
			t.Errorf("Parse(%q) = %v, which is negative", text, d)
		}
		if again, err := time.ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q is shown as %v, which is %v, %v", text, d, again, err)
		}
		var flag Flag
		if err := flag.Set(text); err != nil || time.Duration(flag) != d {
			t.Errorf("the flag's value of %q is %v, %v, want %v", text, time.Duration(flag), err, d)
		}
		if Round(d) < 0 {
			t.Errorf("%v is rounded to %v", d, Round(d))
		}
	})
}
