package doctor_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/internal/leaks"
)

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// What closed clients of clusters leave for a moment: see tests/server.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*clusterStateHolder).LazyReload.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}
