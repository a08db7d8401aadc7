//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground reports whether terminal is a terminal whose foreground this process is in.
func foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
