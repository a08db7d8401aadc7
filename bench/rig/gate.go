package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/internal/workload"
)

// newGate creates a file in dir from which processes map a gate.
func newGate(dir string) (string, error) {
	path := filepath.Join(dir, "gate")
	if err := os.WriteFile(path, make([]byte, workload.GateSize), 0o600); err != nil {
		return "", fmt.Errorf("make the memory that workers share: %w", err)
	}
	return path, nil
}

// mapGate maps the gate in a file. It stays mapped as long as the process lives. The gate of an
// empty path is nil.
func mapGate(path string) (*workload.Gate, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("map the memory that workers share: %w", err)
	}
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, workload.GateSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory that workers share: %s: %w", path, err)
	}
	return (*workload.Gate)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}
