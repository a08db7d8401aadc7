// Package redisson builds the benchmark's worker in Java, which locks with Redisson. It needs a
// JDK, Maven, and the network for the first build.
package redisson

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed pom.xml src
var sources embed.FS

// flags are the flags of the JVM. They select only the quick compiler, because the other one would
// not finish in time: many processes share few processors here, and Redisson is several times as
// fast with the quick one.
var flags = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1"}

// quiet keeps the JVM's own messages out of the answers.
var quiet = []string{"-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr"}

// Flags returns the flags with which Worker runs a JVM.
func Flags() string { return strings.Join(flags, " ") }

// Build builds the worker, unless the same one was built before. Its error
// says what is missing.
var Build = sync.OnceValue(build)

// Worker returns a command that runs the worker. Build must have succeeded.
func Worker() *exec.Cmd { return program("mortise.bench.Worker") }

// Contender returns a command that runs the clients to which faults are put. Build must have
// succeeded.
func Contender() *exec.Cmd { return program("mortise.bench.Contender") }

func program(class string) *exec.Cmd {
	dir, err := directory()
	if err != nil {
		dir = "" // Build has reported the error
	}
	path := filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "target", "dependency", "*")
	args := slices.Concat(flags, quiet, []string{"-cp", path, class})
	return exec.Command("java", args...)
}

// Version returns the versions of Redisson and of Java.
func Version() string {
	pom, err := sources.ReadFile("pom.xml")
	if err != nil {
		panic(err) // it is embedded
	}
	version := "Redisson"
	if m := regexp.MustCompile(`<redisson.version>(.*)</redisson.version>`).FindSubmatch(pom); m != nil {
		version += " " + string(m[1])
	}
	text, err := exec.Command("java", "-version").CombinedOutput()
	if m := regexp.MustCompile(`version "([^"]+)"`).FindSubmatch(text); err == nil && m != nil {
		version += ", Java " + string(m[1])
	}
	return version
}

// directory returns the build directory of the worker: one for each version of its sources.
func directory() (string, error) {
	sum := sha256.New()
	err := walk(func(path string, text []byte) error {
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return nil
	})
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "mortise-bench", "redisson-"+hex.EncodeToString(sum.Sum(nil)[:8])), nil
}

// walk calls do for all sources.
func walk(do func(path string, text []byte) error) error {
	return fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		return do(path, text)
	})
}

func build() error {
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: it needs a JDK from 17 on, and Maven", program)
		}
	}
	dir, err := directory()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	// The final name is given only to a complete build.
	work, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is in a cache
	if err := compile(work); err != nil {
		return err
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return err
	}
	return nil
}

// compile puts the sources into dir and builds them there.
func compile(dir string) error {
	err := walk(func(path string, text []byte) error {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o644)
	})
	if err != nil {
		return err
	}
	mvn := exec.Command("mvn", "-q", "-B", "compile", "dependency:copy-dependencies")
	mvn.Dir = dir
	if text, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker with Maven, which needs the network for the first time: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return nil
}
