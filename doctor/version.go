package doctor

import (
	"context"
	"strconv"
	"strings"
)

// safe has the versions in which the weaknesses of Lua of October 2025 are mended, by which a user who may
// run scripts could run any code in the server (CVE-2025-49844) or act as another user (CVE-2025-46818):
// the third number for each line of versions that has one.
var safe = map[string]map[[2]int]int{
	"redis":  {{6, 2}: 20, {7, 2}: 11, {7, 4}: 6, {8, 0}: 4, {8, 2}: 2},
	"valkey": {{7, 2}: 11, {8, 0}: 6, {8, 1}: 4},
}

// sound is the first line of versions that never had them.
var sound = map[string][2]int{"redis": {8, 3}, "valkey": {9, 0}}

// version looks at which server it is.
func (e *exam) version(context.Context) {
	e.each("server-version", GroupServer, ofInfo, func(s *server) Finding {
		product, name, version := "redis", "Redis", s.info["redis_version"]
		if v := s.info["valkey_version"]; v != "" || s.info["server_name"] == "valkey" {
			product, name, version = "valkey", "Valkey", v
		}
		f := judged(product, name, version)
		if f.Severity == Warning {
			f.Command = e.mortise("doctor --accept server-version")
		}
		return f
	})
}

// embedded says that there is nothing to examine but what lies in the server.
func (e *exam) embedded(context.Context) {
	e.add(Finding{
		ID: "server-version", Group: GroupServer, Severity: Info,
		Found: "it is mortise's embedded server, for tests and demonstrations: it stores nothing on disk, and has no settings, replicas or users to examine",
	})
}

// judged returns what is to be said of a version.
func judged(product, name, version string) Finding {
	f := Finding{Severity: OK, Found: "it is " + name + " " + said(text(version))}
	var n [3]int
	for i, part := range strings.SplitN(version, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	line := [2]int{n[0], n[1]}
	if n[0] == 0 {
		return Finding{Severity: Unknown, Found: f.Found + ", a version that is not known here"}
	}
	first, known := safe[product][line]
	newer := line[0] > sound[product][0] || line[0] == sound[product][0] && line[1] >= sound[product][1]
	if newer || known && n[2] >= first {
		return f
	}
	f.Severity = Warning
	f.Found += ", in which a user who may run scripts can run any code in the server (CVE-2025-49844), unless the package of a distribution has the remedy"
	f.Do = "Update to the newest version of a line that is maintained. If the package of a distribution has the remedy under this number, accept the finding."
	return f
}

// text is an error that is only a text.
type text string

func (t text) Error() string { return string(t) }
