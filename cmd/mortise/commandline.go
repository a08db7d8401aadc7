package main

import (
	"fmt"
	"strings"

	"github.com/mortise-go/mortise/connect"
)

// self returns how a command line begins that means the same Redis and the same names as this one: mortise, with the global flags
// that this one has. What the environment says is there already. It has no password: what needs one has SECRET or FILE in its place.
func (a *app) self() string {
	line := "mortise"
	if a.redis != "" {
		line += " --redis " + shellQuote(a.bareURL())
	}
	switch {
	case a.passwordFile != "" && a.target().err != nil: // it may be the password itself, by mistake
		line += " --password-file FILE"
	case a.passwordFile != "":
		line += " --password-file " + shellQuote(a.passwordFile)
	case hasPassword(a.redis):
		line = envPassword + "=SECRET " + line
	}
	if a.prefix.given != nil && a.prefix.given() {
		line += " --prefix " + shellQuote(a.prefix.text)
	}
	return line
}

// bareURL returns the URL of --redis without its password; URL if it has other secrets, or is none.
func (a *app) bareURL() string {
	const hidden = "xxxxx" // of Redact
	text := strings.Replace(strings.Replace(connect.Redact(a.url()), ":"+hidden+"@", "@", 1), "://@", "://", 1)
	if strings.Contains(text, hidden) {
		return "URL"
	}
	return text
}

// lineError reports a mistake in the command line. The hint is an introduction, and a command line of these words to use instead, which
// may repeat what the user wrote.
func (a *app) lineError(intro, words, format string, args ...any) error {
	return &exitError{code: exitUsage, hint: intro + a.self() + " " + concealed(words), err: fmt.Errorf(format, args...)}
}
