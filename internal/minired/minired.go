// Package minired gives package mortisetest what package memredis has and does not export.
package minired

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Package memredis sets these.
var (
	// Take returns the miniredis beneath a *memredis.Server, whose time and hook the caller sets from now on. It must
	// be called before the server is used.
	Take func(server any) *miniredis.Miniredis
	// Refuse refuses the commands that miniredis would panic about.
	Refuse server.Hook
)
