package server

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/internal/leaks"
)

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// A closed cluster client of rueidis still waits out a refresh that it
		// planned, and the grace it gives to connections that it replaced.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}
