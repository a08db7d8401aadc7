package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Class says what an error means for the script that was called.
type Class uint8

const (
	// Other: Redis replied with an error that no other class covers, or the reply had an
	// unexpected form. The script's contract says what it did.
	Other Class = iota
	// NotSent: nothing reached Redis, because there was no connection or ctx ended first. The
	// script did not run.
	NotSent
	// Unknown: the script was sent, or may have been, and the reply is
	// missing, or says that it was ended on the way. It may have run, may be running, and may
	// still run.
	Unknown
	// Passing: Redis replied that it cannot run the script at the moment (loading, failing
	// over, resharding, out of memory, too few replicas). The script did not change anything.
	Passing
	// Denied: Redis refused the user, the password, or a right that the script or subscription
	// needs. Retrying does not help.
	Denied
	// WrongType: a key holds a type that the script did not expect.
	WrongType
	// CrossSlot: the keys are not all in one slot of the cluster.
	CrossSlot
	// NoScript: the server does not know the script. Drivers then send EVAL themselves; this
	// class never reaches their callers.
	NoScript
	// Unfit: locks cannot work with this kind of client. Nothing reached Redis, and nothing
	// will.
	Unfit
	// NoScripts: the server runs no scripts at all. Retrying does not help.
	NoScripts
	// Closed: the driver, or the client that it uses, is closed. Nothing reached Redis, and
	// nothing will.
	Closed
)

var classNames = [...]string{
	"other", "not sent", "unknown", "passing", "denied", "wrong type", "cross slot", "no script", "unfit", "no scripts", "closed",
}

// String returns the class's name, in words.
func (c Class) String() string { return classNames[c] }

// Error is what drivers return: the client library's error and its class.
type Error struct {
	Class Class
	Err   error
	Reply string // Redis' error reply, if it was one
	Hint  string // what may be wrong, if the driver knows more than the error says
}

// Error returns the underlying error's text, and the hint.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Class == Unknown && e.Reply == "" {
		text = "no reply, so it is not known whether the command ran: " + text
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the client library's own error.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of err. An error without a class counts as [Unknown], which promises
// least. Err must not be nil.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}

// HintOf returns the hint of err, or nothing.
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// ReplyError returns the error for an error reply of Redis: err is the client library's error,
// message its text as Redis sent it.
func ReplyError(err error, message string) error {
	if older(message) {
		err = fmt.Errorf("this server is older than Redis 5.0, the oldest that locks work on: %w", err)
	}
	class := ClassifyReply(message)
	if text := withoutScript(message); text != message && class != Other && class != Unknown { // those may be a mistake in the script
		err = shortError{strings.Replace(err.Error(), message, text, 1), err}
	}
	if class == Denied && unnamed(message) {
		err = fmt.Errorf("%w (ACL LOG on the server says which)", err)
	}
	if class == NoScripts { // what follows is the script
		text, _, _ := strings.Cut(strings.TrimPrefix(unwrap(message), "ERR "), ", with args")
		err = shortError{text, err}
	}
	return &Error{Class: class, Err: err, Reply: unwrap(message)}
}

// shortError is an error with a shorter text.
type shortError struct {
	text string
	err  error
}

func (e shortError) Error() string { return e.text }
func (e shortError) Unwrap() error { return e.err }

// unnamed reports whether an error reply about rights does not say which one is missing. Redis 7.0 names
// no command of a script, and most versions name no key and no channel.
func unnamed(message string) bool {
	about := strings.Contains(message, "permissions") || strings.Contains(message, "The user executing the script")
	return about && !strings.Contains(message, "the '")
}

// older reports whether only a server older than Redis 5.0 gives this error reply to a script that
// works on later ones: up to 4.0 a script that asked for the time could not write, and up to 3.2
// HSET took only one field.
func older(message string) bool {
	return strings.Contains(message, "Write commands not allowed after non deterministic commands") ||
		strings.Contains(message, "Wrong number of args calling Redis command From Lua script")
}

// unwrap returns the error reply in the message of a client library. Before Redis 7.0, the reply to
// a command of a script that failed stood inside another one: "ERR Error running script (call to
// f_…): @user_script:1: @user_script: 1: -READONLY …".
func unwrap(message string) string {
	message = strings.TrimPrefix(message, "-")
	if strings.HasPrefix(strings.TrimPrefix(message, "ERR "), "Error running script (call to ") {
		if _, inner, ok := strings.Cut(message, ": -"); ok {
			return inner
		}
	}
	return message
}

// withoutScript returns an error reply without the digest of a script, and the line at which it failed.
func withoutScript(message string) string {
	text := unwrap(message)
	if i := strings.LastIndex(text, " script: "); i >= 0 && strings.Contains(text[i:], ", on @user_script:") {
		return text[:i]
	}
	return text
}

// ContextError returns the error for a call that ended because ctx did. It
// matches ctx.Err() and the context's cause.
func ContextError(ctx context.Context, class Class) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &Error{Class: class, Err: err}
}

// replyClasses maps the first word of an error reply to its class.
var replyClasses = map[string]Class{
	"NOSCRIPT":    NoScript,
	"WRONGTYPE":   WrongType,
	"CROSSSLOT":   CrossSlot,
	"NOAUTH":      Denied,
	"WRONGPASS":   Denied,
	"NOPERM":      Denied,
	"DENIED":      Denied, // protected mode
	"BUSY":        Passing,
	"LOADING":     Passing,
	"OOM":         Passing,
	"READONLY":    Passing,
	"MASTERDOWN":  Passing,
	"NOREPLICAS":  Passing,
	"TRYAGAIN":    Passing,
	"CLUSTERDOWN": Passing,
	"MISCONF":     Passing,
	"MOVED":       Passing, // a redirection that the client gave up on
	"ASK":         Passing,
	"UNBLOCKED":   Passing, // WAIT was interrupted: the master was demoted
}

// errTexts classifies replies that begin with ERR. The texts are those of Redis 5.0 to 8.6 and
// Valkey 8 and 9.
var errTexts = []struct {
	text  string
	class Class
}{
	{"can't access at least one of the keys", Denied}, // ACL inside Lua, Redis 7.0
	{"can't run this command or subcommand", Denied},  // ACL inside Lua, Redis 7.0
	{"can't publish to the channel", Denied},          // ACL inside Lua, Redis 7.0
	{"is lacking the permissions", Denied},            // ACL inside Lua, Redis 7.0
	{"ACL failure in script", Denied},                 // ACL inside Lua, Redis 7.2 and later
	{"invalid password", Denied},
	{"Client sent AUTH", Denied}, // password sent to a server without one
	{"AUTH <password> called without any password configured", Denied},
	// A slot is moving: a key that is not among the call's is on the other server. What the
	// script has changed before that stays.
	{"attempted to access a non local key", Unknown},
	{"cannot be used with replica instances", Passing}, // WAIT: the master was demoted
	{"max number of clients", Passing},                 // "reached", or "+ cluster connections reached"
	{"WRONGTYPE Operation against", WrongType},         // miniredis wraps replies of Lua
	// The command was renamed or disabled, or the server has no Lua.
	{"unknown command 'EVAL", NoScripts},
	{"unknown command 'eval", NoScripts},
	{"unknown command `EVAL", NoScripts}, // Redis 5.0 and 6.2
	{"unknown command `eval", NoScripts},
	{"Could not find scripting engine", NoScripts}, // Valkey without its module
}

// ClassifyReply returns the class of an error reply from its text.
func ClassifyReply(message string) Class {
	message = unwrap(message)
	word, _, _ := strings.Cut(message, " ")
	if class, ok := replyClasses[word]; ok {
		return class
	}
	for _, t := range errTexts {
		if strings.Contains(message, t.text) {
			return t.class
		}
	}
	return Other
}
