// Package procfs lists the processes of a Linux machine, with what /proc says of
// their parents, groups and states.
//
// Package guard calls it to find all that descends from a command, and so do the
// tests of mortise run. On other systems the package is empty.
package procfs
