package doctor

import (
	"context"
	"maps"
	"slices"
)

// fixable has the ids of what Options.Fix can mend. A lock without TTL is not among them: the key does not say
// whether its holder lives, and trusts a fixed lease that nobody renews.
var fixable = map[string]bool{"fair-queue-dead": true, "permits-expired": true}

// Fixable returns the ids of what [Options.Fix] can mend, in order.
func Fixable() []string { return slices.Sorted(maps.Keys(fixable)) }

// fix mends what was found under some names, if that was asked for.
func (e *exam) fix(ctx context.Context, id string, names []string, mend func(ctx context.Context, name string) (did string, err error)) {
	if !slices.Contains(e.o.Fix, id) {
		return
	}
	for _, name := range names {
		did, err := mend(ctx, name)
		switch {
		case err != nil:
			e.report.Fixed = append(e.report.Fixed, Fixed{ID: id, Name: name, Did: "could not be mended: " + said(err)})
		case did != "":
			e.report.Fixed = append(e.report.Fixed, Fixed{ID: id, Name: name, Did: did})
		default:
			e.report.Fixed = append(e.report.Fixed, Fixed{ID: id, Name: name, Did: "left as it was: it has changed meanwhile, or somebody may need it"})
		}
	}
}
