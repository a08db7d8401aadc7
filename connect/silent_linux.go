package connect

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// silent returns conn without the signal: the kernel sends SIGPIPE to a process that writes to a
// connection that the other side has closed, in addition to the error. A program that catches
// SIGPIPE, as mortise run does, could not tell it from one that a user has sent.
func silent(conn net.Conn) net.Conn {
	below, ok := conn.(syscall.Conn)
	if !ok {
		return conn
	}
	raw, err := below.SyscallConn()
	if err != nil {
		return conn
	}
	return &silentConn{Conn: conn, raw: raw}
}

type silentConn struct {
	net.Conn
	raw syscall.RawConn
}

// Write implements net.Conn.
func (c *silentConn) Write(p []byte) (n int, err error) {
	var failure error
	err = c.raw.Write(func(fd uintptr) bool {
		for n < len(p) {
			m, err := syscall.SendmsgN(int(fd), p[n:], nil, nil, syscall.MSG_NOSIGNAL)
			switch {
			case err == nil:
				n += m
			case errors.Is(err, syscall.EAGAIN):
				return false // until it can be written to, or its deadline
			case !errors.Is(err, syscall.EINTR):
				failure = &net.OpError{Op: "write", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("sendmsg", err)}
				return true
			}
		}
		return true
	})
	if failure != nil {
		err = failure
	}
	return n, err
}
