//go:build !unix

package top

// wake does nothing: processes are not stopped here.
func wake() {}
