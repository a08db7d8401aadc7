package main

import (
	"context"
	"net"
	"net/url"
	"strings"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/doctor"
)

// sentinels connects to each of the sentinels that the URL names, and returns the name of the master. End
// closes the connections.
func (a *app) sentinels(ctx context.Context) (list []doctor.Sentinel, master string, end func()) {
	addrs, urlOf, master := sentinelsOf(a.url())
	for _, addr := range addrs {
		limited, cancel := context.WithTimeout(ctx, connectLeast)
		d, err := connect.Open(limited, urlOf(addr))
		cancel()
		s := doctor.Sentinel{Addr: addr, Err: err}
		if err == nil {
			s.Driver = d
		}
		list = append(list, s)
	}
	return list, master, func() {
		for _, s := range list {
			if s.Driver != nil {
				_ = s.Driver.Close() // nothing is lost
			}
		}
	}
}

// sentinelsOf returns the addresses of the sentinels that a URL names, what returns a URL for each, and the
// name of the master; none if it names no sentinels. Package url does not read several hosts.
func sentinelsOf(rawURL string) (addrs []string, urlOf func(addr string) string, master string) {
	scheme, _, rest := userPart(rawURL)
	scheme, watched := strings.CutSuffix(strings.ToLower(scheme), "-sentinel")
	rest, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if !watched || err != nil {
		return nil, nil, ""
	}
	one := url.URL{Scheme: scheme}
	if password := options.Get("sentinel_password"); password != "" {
		one.User = url.UserPassword(options.Get("sentinel_user"), password)
	}
	master = options.Get("master")
	for _, name := range []string{"master", "sentinel_user", "sentinel_password"} {
		options.Del(name)
	}
	one.RawQuery = options.Encode()
	hosts, _, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "26379")
		}
		addrs = append(addrs, host)
	}
	return addrs, func(addr string) string {
		at := one
		at.Host = addr
		return at.String()
	}, master
}
