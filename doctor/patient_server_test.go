//go:build server

package doctor

import "time"

// A busy machine takes longer to answer than an examination waits, and the tests with real servers do not judge how soon
// it answers.
func init() { limit = time.Minute }
