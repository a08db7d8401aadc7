package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/mortise-go/mortise/driver"
)

// phases are the parts of connecting, in their order, as package connect names them.
var phases = []struct{ name, done, failed, do string }{
	{"resolve", "the name of the host has an address", "the name of the host has no address", "Check the name, and this machine's DNS."},
	{"connect", "the server accepts connections", "the server cannot be reached", "Check that Redis runs there, its port, its bind address and protected mode, and what filters packets between."},
	{"tls", "the connection is encrypted", "TLS fails", "Check that the port is one for TLS, and which certificates both sides accept."},
	{"auth", "the user and the password are accepted", "the user or the password is not accepted", "Check the user and the password; ACL LOG in Redis has what it refused."},
}

// Refused returns the report of a connection that failed in one of the phases of package connect:
// resolve, connect, tls or auth. The phases before it are in order, and nothing else is known. The text
// of err must not contain secrets.
func Refused(phase, hosts string, err error) *Report {
	r := &Report{Keys: -1, Err: err}
	for _, p := range phases {
		if p.name == phase {
			break
		}
		if p.name != "tls" { // it may be none
			r.Findings = append(r.Findings, Finding{ID: "connection-" + p.name, Group: GroupConnection, Severity: OK, Found: p.done})
		}
	}
	r.Findings = append(r.Findings, refused(phase, hosts, err))
	r.finish(nil)
	return r
}

// refused returns the finding for a connection that fails.
func refused(phase, hosts string, err error) Finding {
	switch class := classOf(err); {
	case class == driver.NoScripts:
		return Finding{
			ID: "connection-scripts", Group: GroupConnection, Severity: Critical, Server: hosts, Found: "the server runs no Lua scripts: " + said(err),
			Do: "Locks consist of scripts. Remove the rename-command lines for EVAL and EVALSHA, load the server's Lua module, or use another server.",
		}
	case phase == "" && class == driver.Denied:
		phase = "auth"
	}
	f := Finding{ID: "connection", Group: GroupConnection, Severity: Critical, Found: "Redis does not answer: " + said(err), Do: phases[1].do}
	for _, p := range phases {
		if p.name == phase {
			f = Finding{ID: "connection-" + p.name, Group: GroupConnection, Severity: Critical, Server: hosts, Found: p.failed + ": " + said(err), Do: p.do}
		}
	}
	if phase == "auth" && strings.Contains(err.Error(), "NOAUTH ") {
		f.Found, f.Do = "Redis asks for a password, and none was given", "Give the password, and the user if it has a name."
	}
	if phase == "" || phase == "connect" {
		f.Do = cmp.Or(Unanswered(err), f.Do)
	}
	return f
}

// Unanswered says what to do about a server that closes connections, or does not answer; nothing if err, of a driver or of
// package connect, says neither.
func Unanswered(err error) string {
	var timeout net.Error
	var sent *driver.Error
	cut := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
	switch {
	case cut:
		return "What listens there has closed the connection. If the port is one for TLS, write rediss://; otherwise it may not be Redis."
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(),
		errors.As(err, &sent) && sent.Class == driver.Unknown && sent.Reply == "":
		return "Nothing answers there, and nothing refuses the connection: Redis may be stopped or hang, or a firewall may drop what is sent."
	}
	return ""
}

// said returns the text of an error, safe to print.
func said(err error) string {
	const most = 300
	text := strings.TrimPrefix(err.Error(), "mortise: ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	q := fmt.Sprintf("%q", text)
	if q == `"`+text+`"` {
		return text
	}
	return q
}

// classOf returns the class of an error; Other if there is none.
func classOf(err error) driver.Class {
	if err == nil {
		return driver.Other
	}
	return driver.ClassOf(err)
}
