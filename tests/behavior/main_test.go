package behavior

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
	"go.uber.org/goleak"
)

// The embedded server makes a new Lua state for each script. To clear the stack of the usual
// size takes a tenth of the time of these tests; the scripts need less than half of it.
func init() { lua.RegistrySize = 2048 }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
