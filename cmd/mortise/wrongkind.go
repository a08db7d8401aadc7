package main

import (
	"context"
	"errors"
	"strings"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// withoutReply removes from the text of an error of a wrong kind what Redis has replied: that is about
// types and scripts, not about the name.
func withoutReply(err error, text string) string {
	if !errors.Is(err, mortise.ErrWrongKind) {
		return text
	}
	what := mortise.ErrWrongKind.Error()
	if i := strings.Index(text, what+": "); i >= 0 && strings.Contains(text[i:], "WRONGTYPE") {
		return text[:i+len(what)]
	}
	return text
}

// wrongKindHint says what to do about a name that is in use for something else.
func (a *app) wrongKindHint(err error) string {
	name := "NAME"
	for e := (*mortise.Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Name != "" {
			name = nameArgs(e.Name) // the innermost: that of a lock among several
		}
	}
	return "Something of another kind has this name in Redis. Choose another name. To see what it is: " + a.self() + " show " + name
}

var typeOf = driver.NewScript("type", "return redis.call('TYPE', KEYS[1]).ok")

// otherTypes are the types of keys in Redis that mortise does not use in this form.
var otherTypes = map[string]string{
	"string": "a string, as redsync and redislock use it, or another program's",
	"hash":   "a hash, but not of the form of a lock",
	"list":   "a list",
	"set":    "a set",
	"zset":   "a sorted set",
	"stream": "a stream",
}

// redisType returns the type of a key in Redis, as TYPE does.
func redisType(ctx context.Context, d driver.Driver, key string) (string, error) {
	v, err := d.Eval(ctx, driver.Call{Script: typeOf, Keys: []string{key}})
	return v.Str(), err
}

// typeText says what a type in Redis is.
func typeText(t string) string {
	if text, ok := otherTypes[t]; ok {
		return text
	}
	return "of the type " + shown(t)
}
