//go:build !unix

package main

import "os"

// foreground reports false: consoles of this system may not know the sequences that erase a line.
func foreground(*os.File) bool { return false }
