// Package procfs lists the processes of a Linux machine, with their parents, groups and states from
// /proc.
//
// Package guard uses it to find the descendants of a command, and so do the tests of mortise run.
// On other systems the package is empty.
package procfs
