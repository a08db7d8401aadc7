//go:build !linux

package rig

import "os/exec"

// CanPin reports whether processes can be kept on one CPU.
const CanPin = false

// launch starts cmd. On this system it may run on any CPU, and outlives this process if that is
// killed.
func launch(cmd *exec.Cmd, _ bool) error { return cmd.Start() }
