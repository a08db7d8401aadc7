package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
)

// servedRedis is the Redis that the pages show.
type servedRedis struct {
	driver driver.Driver
	end    func() // ends it, if it is one of the demonstration
	url    string // without a password
	full   string // the same with its password, if it has one
	prefix string
}

// shownRedis connects to the Redis to show, or starts one.
func (a *app) shownRedis(ctx context.Context, demo bool) (s *servedRedis, err error) {
	if demo {
		return startFleet(ctx)
	}
	d, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return &servedRedis{driver: d, end: func() {}, url: withoutPassword(a.url()), full: a.url(), prefix: a.keyPrefix()}, nil
}

// withoutPassword returns a URL with its user, but without a password, for command lines that others see. It is empty if
// something in it may be secret.
func withoutPassword(text string) string {
	scheme, user, rest := userPart(text)
	bare := scheme + "://" + rest
	if connect.Redact(bare) != bare {
		return ""
	}
	if name, password, _ := strings.Cut(user, ":"); name != "" && password != "" { // a user alone may be a password in the wrong place
		return scheme + "://" + name + "@" + rest
	}
	return bare
}

// mortise returns how a command line begins that runs mortise for it.
func (s *servedRedis) mortise() string {
	if s.url == "" {
		return ""
	}
	return "mortise --redis " + shellQuote(s.url)
}

// redisCLI returns how a command line begins that runs redis-cli for it; nil if its address is not known. It asks
// for the password, if there is one.
func (s *servedRedis) redisCLI() func(server string) string {
	u, err := url.Parse(s.url)
	if err != nil || s.url == "" || strings.Contains(u.Scheme, "sentinel") {
		return nil
	}
	cli := redisCLI(s.full, "")
	first, flags := "", ""
	if strings.Contains(u.Scheme, "cluster") {
		if first, _, _ = strings.Cut(u.Host, ","); first != "" && !strings.Contains(strings.TrimPrefix(first, "["), ":") {
			first += ":6379"
		}
		flags = " -c"
	} else if db := strings.Trim(u.Path, "/"); u.Scheme != "unix" && db != "" && db != "0" {
		flags = " -n " + shellQuote(db)
	} else if db := u.Query().Get("db"); db != "" && db != "0" {
		flags = " -n " + shellQuote(db)
	}
	return func(server string) string {
		if server == "" {
			server = first
		}
		return cli(server) + flags
	}
}

// sayDemo tells where the Redis of the demonstration is: other commands can look at it, too.
func (s *servedRedis) sayDemo(a *app) {
	fmt.Fprintf(a.stdout, "Its Redis is embedded, and listens for other commands as well:\n\n  %s top\n\n", s.mortise())
}
