package main

import (
	"cmp"
	"fmt"
)

// self returns how a command line begins that means the same Redis and the same names as this one: mortise, with the global flags
// that this one has. What the environment says is there already. It has no password: what needs one has SECRET or FILE in its place.
func (a *app) self() string {
	line := a.again()
	if a.passwordFile == "" && hasPassword(a.redis) {
		line = envPassword + "=SECRET " + line
	}
	if a.prefix.given != nil && a.prefix.given() {
		line += " --prefix " + shellQuote(a.prefix.text)
	}
	return line
}

// again returns how a command line begins that runs mortise for the same Redis: with what the flags say of it, but for a password. What
// the environment says stands.
func (a *app) again() string {
	line := "mortise"
	if a.redis != "" {
		line += " --redis " + shellQuote(cmp.Or(withoutPassword(a.url()), "URL"))
	}
	switch {
	case a.passwordFile != "" && a.target().err != nil: // it may be the password itself, by mistake
		line += " --password-file FILE"
	case a.passwordFile != "":
		line += " --password-file " + shellQuote(a.passwordFile)
	}
	return line
}

// lineError reports a mistake in the command line. The hint is an introduction, and a command line of these words to use instead, which
// may repeat what the user wrote.
func (a *app) lineError(intro, words, format string, args ...any) error {
	return &exitError{code: exitUsage, hint: intro + a.self() + " " + concealed(words), err: fmt.Errorf(format, args...)}
}
