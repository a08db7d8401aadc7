package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
)

// What a command sees of the lock it runs under.
const (
	envName  = "MORTISE_NAME"
	envOwner = "MORTISE_OWNER"
	envHeld  = "MORTISE_HELD"
	envToken = "MORTISE_TOKEN" // the fencing token, if there is one
	// envHolds has a line for each run around the command, the innermost one
	// first: owner, space, name. A name has no line breaks.
	envHolds = "MORTISE_HOLDS"
	// envRedis is passed on, so that a mortise inside asks the same Redis.
	envRedis = "MORTISE_REDIS_URL"
)

// childEnv is the environment of a command that runs under a lock.
func (a *app) childEnv(name string, hold grip) []string {
	set := map[string]string{
		envName: name, envOwner: hold.Owner(), envHeld: "1",
		envHolds: strings.TrimSuffix(hold.Owner()+" "+name+"\n"+a.getenv(envHolds), "\n"),
	}
	if token := hold.Token(); token != 0 {
		set[envToken] = strconv.FormatInt(token, 10)
	}
	if a.redis != "" {
		set[envRedis] = a.redis
	}
	var env []string
	for _, entry := range os.Environ() {
		key, _, _ := strings.Cut(entry, "=")
		if _, ours := set[key]; !ours && key != envToken {
			env = append(env, entry)
		}
	}
	for key, value := range set {
		env = append(env, key+"="+value)
	}
	return env
}

// outerOwner returns the owner under which a run around this one claims to
// hold name, or "".
func (a *app) outerOwner(name string) string {
	if a.getenv(envHeld) == "" {
		return ""
	}
	if a.getenv(envName) == name {
		return a.getenv(envOwner)
	}
	for line := range strings.Lines(a.getenv(envHolds)) {
		if owner, held, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); held == name {
			return owner
		}
	}
	return ""
}

// covered reports whether this process runs under the lock already: a run
// around it holds the lock, and Redis says so too. The environment alone proves
// nothing; a process may have outlived the run that started it.
func (a *app) covered(ctx context.Context, name string, s subject) (bool, error) {
	owner := a.outerOwner(name)
	if owner == "" {
		return false, nil
	}
	owners, err := s.owners(ctx)
	return slices.Contains(owners, owner), err
}
