package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/mortise-go/mortise"
)

// locks looks at hashes without TTL that may be locks.
func (e *exam) locks(ctx context.Context, keys []string) {
	const id = "lock-without-ttl"
	var names []string
	var first *mortise.Holder
	for _, key := range keys {
		name := strings.TrimPrefix(key, e.o.Prefix)
		s, err := e.client.Inspect(ctx, name)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue // it is gone, or it is no lock's name
		}
		if !s.Locked || s.TTL >= 0 || s.Kind == mortise.KindPermits || len(s.Holders) == 0 {
			continue
		}
		names = append(names, name)
		if first == nil {
			first = &s.Holders[0]
		}
	}
	if len(names) == 0 {
		e.add(Finding{ID: id, Group: GroupKeys, Severity: OK, Found: "all locks that were looked at have a TTL"})
		return
	}
	f := Finding{
		ID: id, Group: GroupKeys, Severity: Critical, Found: fmt.Sprintf("locks without TTL: %d, %s. Nobody gets such a lock before its holder releases it, which may be gone", len(names), listed(names)),
		Do:      "See whether the holder lives; if it does not, free the lock.",
		Command: e.mortise("unlock --owner " + word(first.Owner) + " " + nameArg(names[0])),
	}
	e.add(f.about(names))
}
