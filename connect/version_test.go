package connect

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
)

func TestVersionError(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:2.8.19\r\nos:Linux\r\n": "it is Redis 2.8.19, and locks need 5.0 or later",
		"redis_version:4.0.14\r\n":                         "it is Redis 4.0.14, and locks need 5.0 or later",
		"redis_version:5.0.10\r\n":                         "",
		"redis_version:7.0.15\r\n":                         "",
		"redis_version:unstable\r\n":                       "",
		"":                                                 "",
	} {
		got := ""
		if err := versionError(info); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
}

// oldServer answers as Redis 2.8 does to what a client sends first.
func oldServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAsOld(conn)
		}
	}()
	return l.Addr().String()
}

func answerAsOld(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var args []string
		for want := 1; len(args) < want; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch line = strings.TrimSpace(line); line[0] {
			case '*':
				want, _ = strconv.Atoi(line[1:])
			case '$':
			default:
				args = append(args, line)
			}
		}
		reply := "-ERR unknown command '" + args[0] + "'\r\n"
		switch strings.ToUpper(args[0]) {
		case "INFO":
			reply = "$24\r\nredis_version:2.8.19\r\n\r\n\r\n"
		case "CLIENT", "SELECT":
			reply = "+OK\r\n"
		case "PING":
			reply = "+PONG\r\n"
		}
		if _, err := conn.Write([]byte(reply)); err != nil {
			return
		}
	}
}

func TestOpenRefusesAnOldServer(t *testing.T) { refusesAnOldServer(t) }

func refusesAnOldServer(t *testing.T) {
	t.Helper()
	refused(t, t.Context(), "redis://"+oldServer(t), driver.Other, "connect to Redis at", "it is Redis 2.8.19, and locks need 5.0 or later")
}
