// Package minired gives package mortisetest what package memredis has and does not export.
package minired

import "github.com/alicebob/miniredis/v2"

// Of returns the miniredis beneath a *memredis.Server. Package memredis sets it.
var Of func(server any) *miniredis.Miniredis
