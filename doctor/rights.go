package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

//go:embed lua/rights.lua
var rightsText string

var askRights = driver.NewScript("doctor_rights", rightsText)

// rights looks at what the user may do, for each kind of lock.
func (e *exam) rights(ctx context.Context) {
	const id = "rights"
	var able, unable []string
	missing, err := e.missingOfAll(ctx)
	if err != nil {
		f := e.unknown(id, GroupRights, err, "eval", "evalsha")
		if f.Do == "" {
			f.Do = "Compare the rights of the user with those that locks need."
			f.Command = e.cli("", "acl getuser "+word(e.userName())) + "\n" + e.mortise("acl")
		}
		e.add(f)
		return
	}
	for _, r := range rows {
		switch words := missing[r.kind]; {
		case r.added:
		case words == nil:
			able = append(able, r.kind.Title())
		default:
			unable = append(unable, fmt.Sprintf("%s (without %s)", r.kind.Title(), brief(words)))
		}
	}
	f := Finding{ID: id, Group: GroupRights, Severity: OK, Found: "the user has the rights that all kinds of lock need"}
	switch wanted := e.wanted(missing); {
	case len(unable) == 0:
		e.add(f)
		e.recordRights(missing)
		return
	case len(able) == 0:
		f = e.powerless(wanted, missing)
	default:
		f.Severity, f.Found = Info, "the user may use "+strings.Join(able, "; ")+". It may not use "+strings.Join(unable, "; ")
		if len(e.o.Kinds) > 0 && len(wanted) > 0 {
			f.Severity = Critical
		}
		if len(wanted) > 0 {
			f.Do, f.Command = "If it is to use them, give it these rights.", e.grant(wanted, missing)
		}
	}
	if e.o.Prefix == "" {
		f.Do += " If the user may use some names only, examine with --prefix."
	}
	e.add(f)
	e.recordRights(missing)
}

// powerless returns the finding for a user who may use no kind of lock.
func (e *exam) powerless(wanted []Kind, missing map[Kind][]string) Finding {
	const few = 20   // words that a user lacks: of more it gets the whole rule
	next := KindLock // what it lacks the least for; nothing is wanted if only what comes on top must work
	for i, kind := range wanted {
		if i == 0 || len(missing[kind]) < len(missing[next]) {
			next = kind
		}
	}
	f := Finding{
		ID: "rights", Group: GroupRights, Severity: Critical, Found: fmt.Sprintf("the user may use no kind of lock; for %s it lacks %s", next.Title(), brief(missing[next])),
		Do: "Give it the rights of the kinds that it is to use.", Command: e.mortise("acl --user " + word(e.userName()) + " --kind " + string(next)),
	}
	if len(missing[next]) <= few {
		f.Command = e.grant([]Kind{next}, missing)
	}
	return f
}

// wanted returns the kinds that miss something and must work; all that miss something, if it is not known
// which must.
func (e *exam) wanted(missing map[Kind][]string) (kinds []Kind) {
	for _, r := range rows {
		if missing[r.kind] != nil && !r.added && (len(e.o.Kinds) == 0 || slices.Contains(e.o.Kinds, r.kind)) {
			kinds = append(kinds, r.kind)
		}
	}
	return kinds
}

// recordRights looks at the rights to what clients publish about themselves.
func (e *exam) recordRights(missing map[Kind][]string) {
	f := Finding{ID: "rights-records", Group: GroupRights, Severity: OK, Found: "the user may read and write the records of clients"}
	if words := missing[KindRecords]; words != nil {
		f.Severity = Info
		if slices.Contains(e.o.Kinds, KindRecords) {
			f.Severity = Critical
		}
		f.Found = "the user lacks rights to the records of clients, by which holders and waiters have names: " + brief(words)
		f.Do, f.Command = "If others are to see what its clients hold, give it these rights.", e.grant([]Kind{KindRecords}, missing)
	}
	e.add(f)
}

// brief returns some of many words.
func brief(words []string) string {
	const most = 6
	if len(words) <= most {
		return strings.Join(words, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], " "), len(words)-most)
}

// grant returns the command that gives the user what is missing.
func (e *exam) grant(kinds []Kind, missing map[Kind][]string) string {
	var words []string
	for _, kind := range kinds {
		words = append(words, missing[kind]...)
	}
	line := []string{e.o.RedisCLI(""), "acl", "setuser", word(e.userName())}
	for _, w := range unique(words) {
		line = append(line, word(w))
	}
	return strings.Join(line, " ")
}
