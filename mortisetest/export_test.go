package mortisetest

// Commands returns how many commands the server has run, those of scripts included.
func (s *Server) Commands() int { return s.mini.CommandCount() }
