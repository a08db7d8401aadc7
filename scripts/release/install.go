package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// machine is one that has never seen this repository: it has an empty module cache, and no workspace.
type machine struct {
	dir string // for its program
	bin string
	env []string
}

// newMachine returns a machine that gets our modules from the proxy, and others as this one does, or from
// its cache.
func newMachine(p *proxy, temporary string) (*machine, error) {
	here, err := output(temporary, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(here), "\n")
	m := &machine{dir: filepath.Join(temporary, "program"), bin: filepath.Join(temporary, "bin")}
	m.env = []string{
		"GOWORK=off", "GOTOOLCHAIN=local", "GOMODCACHE=" + filepath.Join(temporary, "cache"), "GOBIN=" + m.bin,
		"GOFLAGS=-modcacherw -trimpath", // without paths, what was compiled last time can be used
		"GOPROXY=" + p.url + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + others,
		"GOPRIVATE=", "GONOPROXY=", "GONOSUMDB=" + root,
	}
	return m, os.MkdirAll(m.dir, 0o755)
}

// do runs a command on the machine, and shows it.
func (m *machine) do(name string, args ...string) (string, error) {
	fmt.Println("  ", filepath.Base(name), strings.Join(args, " "))
	out, err := output(m.dir, m.env, name, args...)
	return strings.TrimSpace(out), err
}

// install installs a version as users do, from the tags that the tree would have.
func install(t tree, version, temporary string) error {
	modules, err := t.modules()
	if err != nil {
		return err
	}
	p, err := publish(t, version, temporary, modules)
	if err != nil {
		return err
	}
	if err := t.checkSums(modules, p, version); err != nil {
		return err
	}
	m, err := newMachine(p, temporary)
	if err != nil {
		return err
	}
	if _, err := m.do("go", "install", root+"/cmd/mortise@"+version); err != nil {
		return err
	}
	mortise := filepath.Join(m.bin, "mortise")
	said, err := m.do(mortise, "--version")
	if err != nil {
		return err
	}
	fmt.Println("    ", said)
	if !strings.Contains(said+" ", " "+version+" ") {
		return fmt.Errorf("the command says %q; it is %s", said, version)
	}
	if err := m.program(t, version, mortise); err != nil {
		return err
	}
	for _, other := range modules[1:] {
		if _, err := m.do("go", "get", other.path+"/...@"+version); err != nil {
			return err
		}
		if _, err := m.do("go", "list", "-deps", "-f", "", other.path+"/..."); err != nil {
			return err
		}
	}
	return nil
}

var firstProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

const usualRedis = "localhost:6379" // in the program of the README

// program builds the program of the README, and runs it with the command's embedded Redis.
func (m *machine) program(t tree, version, mortise string) (err error) {
	readme, err := os.ReadFile(t.file("README.md"))
	if err != nil {
		return err
	}
	found := firstProgram.FindSubmatch(readme)
	if found == nil || !strings.Contains(string(found[1]), usualRedis) {
		return fmt.Errorf("README.md has no complete program that uses a Redis at %s", usualRedis)
	}
	server := exec.Command(mortise, "server", "--addr", "127.0.0.1:0")
	said, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, server.Process.Signal(syscall.SIGTERM), server.Wait())
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || addr == "" {
		return errors.Join(err, fmt.Errorf("mortise server says %q, which is no address", line))
	}
	source := strings.ReplaceAll(string(found[1]), usualRedis, addr)
	if err := os.WriteFile(filepath.Join(m.dir, "main.go"), []byte(source), 0o644); err != nil {
		return err
	}
	program := filepath.Join(m.bin, "program")
	for _, args := range [][]string{
		{"go", "mod", "init", "example.com/program"}, {"go", "get", root + "@" + version}, {"go", "mod", "tidy"},
		{"go", "build", "-o", program, "."}, {program},
	} {
		said, err := m.do(args[0], args[1:]...)
		if err != nil {
			return err
		}
		if args[0] == program {
			fmt.Println("    ", said)
		}
	}
	return m.vet(version)
}

// vet installs the analyzer, and runs it on the program.
func (m *machine) vet(version string) error {
	if _, err := m.do("go", "install", root+"/analyzer/cmd/mortisevet@"+version); err != nil {
		return err
	}
	_, err := m.do("go", "vet", "-vettool="+filepath.Join(m.bin, "mortisevet"), ".")
	return err
}
