package memredis

import "github.com/alicebob/miniredis/v2/server"

// Hook calls f with every command before the server runs it. If f returns false, the command does
// not run, and its connection is closed.
func (s *Server) Hook(f func(command string, args []string) bool) {
	if s.mini.Server() == nil { // the first connection starts it
		if c, err := s.Dial(); err == nil {
			c.Close()
		}
	}
	s.mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if f(command, args) {
			return false
		}
		c.Close()
		return true
	})
}
