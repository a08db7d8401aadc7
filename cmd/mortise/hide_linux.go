package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hide puts text into a file that only this user can read, and that ends with this process.
func (a *app) hide(text string) (path string, err error) {
	fd, err := unix.MemfdCreate("mortise", unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	a.hidden = os.NewFile(uintptr(fd), "mortise")
	if err := a.hidden.Chmod(0o400); err != nil {
		return "", err
	}
	_, err = a.hidden.WriteString(text + "\n")
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), err
}
