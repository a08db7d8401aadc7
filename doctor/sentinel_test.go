package doctor

import (
	"strings"
	"testing"
)

func TestSentinelsAreJudged(t *testing.T) {
	o := func(sentinel, addr, flags string, peers, replicas int) opinion {
		return opinion{sentinel: sentinel, addr: addr, flags: flags, peers: peers, quorum: 2, replicas: replicas}
	}
	fine := []opinion{o("s1", "m:1", "master", 2, 1), o("s2", "m:1", "master", 2, 1), o("s3", "m:1", "master", 2, 1)}
	for name, test := range map[string]struct {
		answered []opinion
		silent   []string
		want     Severity
		words    string
	}{
		"all agree":               {fine, nil, OK, "3 of 3 answer"},
		"nobody answers":          {nil, []string{"s1 (refused)"}, Critical, "no sentinel answers"},
		"they name two":           {append(fine[:2:2], o("s3", "m:2", "master", 2, 1)), nil, Critical, `s3 says "m:2"`},
		"the master is down":      {append(fine[:2:2], o("s3", "m:1", "master,s_down", 2, 1)), nil, Critical, "s3 takes the master for down"},
		"it is disconnected":      {[]opinion{o("s1", "m:1", "master,disconnected", 2, 1)}, nil, Critical, "disconnected"},
		"one of three is silent":  {fine[:2], []string{"s3 (refused)"}, Warning, "s3 (refused)"},
		"two of three are silent": {fine[:1], []string{"s2", "s3"}, Critical, "1 of 3"},
		"there are two":           {[]opinion{o("s1", "m:1", "master", 1, 1), o("s2", "m:1", "master", 1, 1)}, nil, Warning, "no majority"},
		"there is no replica":     {[]opinion{o("s1", "m:1", "master", 2, 0), o("s2", "m:1", "master", 2, 0)}, nil, Warning, "no replica"},
		"their text is hostile":   {[]opinion{o("s1", "\x1b[2J:1", "master", 2, 1), o("s2", "\x1b[2J:1", "master", 2, 1)}, nil, OK, `\x1b[2J`},
	} {
		f := judgedSentinels(test.answered, test.silent)
		if f.Severity != test.want || !strings.Contains(f.Found, test.words) || f.Severity != OK && f.Do == "" || strings.Contains(f.Found, "\x1b") {
			t.Errorf("%s: %+v, want %s with %q", name, f, test.want, test.words)
		}
	}
}
