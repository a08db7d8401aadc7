package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// clientLimits looks at how many more clients the server accepts.
func (e *exam) clientLimits(context.Context) {
	e.each("max-clients", GroupConnections, ofInfo, func(s *server) Finding {
		used, most := s.number("connected_clients"), s.number("maxclients")
		if most == 0 {
			most = s.set("maxclients")
		}
		f := Finding{Severity: OK, Found: fmt.Sprintf("clients that are connected: %d, of %d at most", used, most)}
		switch {
		case most == 0:
			return Finding{Severity: Unknown, Found: fmt.Sprintf("clients that are connected: %d; how many may be is not known", used)}
		case used*20 > most*19:
			f.Severity = Critical
		case used*5 > most*4:
			f.Severity = Warning
		default:
			return f
		}
		f.Found += ": beyond that the server turns clients away, which then cannot renew their locks"
		f.Do = "Raise maxclients, or find out who opens so many connections."
		f.Command = e.cli(s.addr, "client list") + "\n" + e.cli(s.addr, "config set maxclients "+strconv.FormatInt(2*most, 10))
		return f
	})
}

// buffers looks at whether subscribers can be disconnected for being slow.
func (e *exam) buffers(context.Context) {
	const least = 1 << 20
	e.each("pubsub-buffer", GroupConnections, ofConfig, func(s *server) Finding {
		words := strings.Fields(s.conf["client-output-buffer-limit"])
		for i := 0; i+3 < len(words); i += 4 {
			if words[i] != "pubsub" {
				continue
			}
			hard, _ := strconv.ParseInt(words[i+1], 10, 64)
			soft, _ := strconv.ParseInt(words[i+2], 10, 64)
			if hard > 0 && hard < least || soft > 0 && soft < least {
				var limits []string // 0 is none
				if hard > 0 {
					limits = append(limits, "more than "+size(hard)+" waiting for it")
				}
				if soft > 0 {
					limits = append(limits, "more than "+size(soft)+" for "+words[i+3]+" s")
				}
				return Finding{
					Severity: Warning, Found: "a subscriber with " + strings.Join(limits, ", or ") + " is disconnected: when a client pauses, its waiters miss messages, and ask once a second instead",
					Do: "Use Redis' own limits.", Command: e.cli(s.addr, "config set client-output-buffer-limit 'pubsub 32mb 8mb 60'"),
				}
			}
			return Finding{Severity: OK, Found: "subscribers may fall behind by " + bufferText(hard, soft)}
		}
		return Finding{Severity: Unknown, Found: "the server does not tell how far subscribers may fall behind"}
	})
}

func bufferText(hard, soft int64) string {
	switch {
	case hard == 0 && soft == 0:
		return "any number of bytes"
	case soft == 0:
		return size(hard)
	}
	return size(max(hard, soft))
}

// keepalive looks at whether the server notices that a client is gone.
func (e *exam) keepalive(context.Context) {
	const long = 600
	e.each("tcp-keepalive", GroupConnections, ofConfig, func(s *server) Finding {
		switch n := s.set("tcp-keepalive"); {
		case n == 0 || n > long:
			return Finding{
				Severity: Warning, Found: fmt.Sprintf("tcp-keepalive is %d: a client whose machine is gone counts as a listener for long, and a FairLock waits for it in vain", n),
				Do: "Use Redis' own value.", Command: e.cli(s.addr, "config set tcp-keepalive 300"),
			}
		default:
			return Finding{Severity: OK, Found: fmt.Sprintf("a client whose machine is gone is noticed within about %d s (tcp-keepalive)", n)}
		}
	})
}

// idleTimeout looks at whether the server closes connections that are idle.
func (e *exam) idleTimeout(context.Context) {
	const brief = 60
	e.each("idle-timeout", GroupConnections, ofConfig, func(s *server) Finding {
		n := s.set("timeout")
		switch {
		case n == 0:
			return Finding{Severity: OK, Found: "idle connections stay open (timeout 0)"}
		case n < brief:
			return Finding{
				Severity: Warning, Found: fmt.Sprintf("connections that are idle for %d s are closed (timeout): a call may find its connection closed, and takes longer, or has an unknown outcome. Subscribers are spared", n),
				Do: "Leave idle connections open.", Command: e.cli(s.addr, "config set timeout 0"),
			}
		}
		return Finding{Severity: Info, Found: fmt.Sprintf("connections that are idle for %d s are closed (timeout). Subscribers are spared", n)}
	})
}
