package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// Version is the name and the version of a server.
type Version struct {
	Valkey       bool
	Major, Minor int
	Text         string // such as "Redis 7.0.15"
}

// AtLeast reports whether a server of this version has what came with a version of Redis. Valkey
// has had all that Redis 7.2 has since its first release.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Program returns the program that tests start as a server: redis-server from PATH, or what the
// environment variable REDIS_SERVER_BIN names.
func Program() (string, error) {
	name := cmp.Or(os.Getenv("REDIS_SERVER_BIN"), "redis-server")
	path, err := exec.LookPath(name)
	if err != nil {
		err = fmt.Errorf("cannot find %s, which this test needs (`make gate` installs redis-server; REDIS_SERVER_BIN names another): %w", name, err)
	}
	return path, err
}

// Current returns the version of [Program].
func Current(t testing.TB) Version {
	t.Helper()
	v, err := current()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var current = sync.OnceValues(func() (Version, error) {
	path, err := Program()
	if err != nil {
		return Version{}, err
	}
	return VersionOf(path)
})

// Sharded reports whether [Program] knows sharded messages, SPUBLISH and SSUBSCRIBE.
func Sharded(t testing.TB) bool { t.Helper(); return Current(t).AtLeast(7, 0) }

// VersionOf asks a program for its version.
func VersionOf(path string) (Version, error) {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return Version{}, fmt.Errorf("%s --version: %w\n%s", path, err, out)
	}
	v, err := parseVersion(string(out))
	if err != nil {
		err = fmt.Errorf("%s --version: %w", path, err)
	}
	return v, err
}

var versionLine = regexp.MustCompile(`^(Redis|Valkey) server v=((\d+)\.(\d+)\S*) `)

func parseVersion(line string) (Version, error) {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return Version{}, errors.New("neither Redis nor Valkey: " + strconv.Quote(line))
	}
	major, _ := strconv.Atoi(m[3]) // digits, by the expression
	minor, _ := strconv.Atoi(m[4])
	return Version{Valkey: m[1] == "Valkey", Major: major, Minor: minor, Text: m[1] + " " + m[2]}, nil
}
