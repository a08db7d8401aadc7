package memredis

import "github.com/alicebob/miniredis/v2/server"

// Hook calls f with every command before the server runs it, also with those of scripts. If f
// returns false, the command does not run, and its connection is closed.
func (s *Server) Hook(f func(command string, args []string) bool) {
	s.mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if f(command, args) {
			return s.beforeCommand(c, command, args...)
		}
		c.Close()
		return true
	})
}

// Connections returns how many connections the clock knows.
func (s *Server) Connections() (n int) {
	s.clock.connections.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
