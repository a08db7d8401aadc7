// Package minired gives package mortisetest what package memredis has and does not export.
package minired

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Package memredis sets these.
var (
	// Of returns the miniredis beneath a *memredis.Server.
	Of func(server any) *miniredis.Miniredis
	// Refuse refuses the commands that miniredis would panic about.
	Refuse server.Hook
)
