package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// users are those who may look: the hashes of NAME:PASSWORD. Nil means everybody.
type users [][sha256.Size]byte

// leastPassword is the shortest password of a user: nobody can try all of that length.
const leastPassword = 16

// readUsers reads the file with users; there are none without a file.
func readUsers(file string) (users, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, usageError("chmod 600 "+shellQuote(file), "the file of --auth-file can be read by others")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // without the name: it may be the password itself, by mistake
	}
	if err != nil {
		return nil, usageError("--auth-file takes the path of a file with a line NAME:PASSWORD for each user.", "%s cannot be read: %w", authFile(file), err)
	}
	var list users
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		if !ok || name == "" || len(password) < leastPassword {
			return nil, usageError("openssl rand -hex 16 makes a password.", "line %d of the file of --auth-file is not NAME:PASSWORD, with at least %d bytes of password", number, leastPassword)
		}
		list = append(list, sha256.Sum256([]byte(line)))
	}
	if list == nil {
		return nil, usageError("", "the file of --auth-file has no user")
	}
	return list, nil
}

// authFile describes the file of --auth-file: by its path if its folder exists, as what stands there may be a password by
// mistake; else by where it was looked for.
func authFile(file string) string {
	folder := filepath.Dir(file)
	if info, err := os.Stat(folder); err == nil && info.IsDir() && folder != "." && folder != "/" {
		return "the file " + shellQuote(file) + " of --auth-file"
	}
	if here, err := os.Getwd(); err == nil && folder == "." {
		return "the file of --auth-file, looked for in " + shellQuote(here) + ","
	}
	return "the file of --auth-file"
}

// guard returns a handler that only users reach.
func (u users) guard(next http.Handler) http.Handler {
	if u == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, ok := r.BasicAuth(); ok {
			if u.has(name, password) {
				next.ServeHTTP(w, r)
				return
			}
			slowDown(r.Context())
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="mortise", charset="UTF-8"`)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "Who are you? The file of --auth-file has the names and passwords.", http.StatusUnauthorized)
	})
}

// has reports whether somebody is a user. It takes as long for all who are not.
func (u users) has(name, password string) bool {
	sum := sha256.Sum256([]byte(name + ":" + password))
	found := 0
	for i := range u {
		found |= subtle.ConstantTimeCompare(u[i][:], sum[:])
	}
	return found == 1
}

// slowDown makes whoever tries passwords wait.
func slowDown(ctx context.Context) {
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
