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

// rights looks at what the user may do: of the kinds that must work, or of each kind of lock.
func (e *exam) rights(ctx context.Context) {
	const id = "rights"
	missing, err := e.missingOfAll(ctx)
	if err != nil {
		f := e.unknown(id, GroupRights, err, "eval", "evalsha")
		if f.Do == "" {
			f.Do = "Compare the rights of the user with those that locks need."
			f.Command = e.o.AdminCLI("") + " acl getuser " + word(e.userName()) + "\n" + e.acl(e.narrowest()...)
		}
		e.add(f)
		return
	}
	f := e.rightsOfLocks(missing)
	kinds := slices.DeleteFunc(slices.Clone(e.o.Kinds), func(k Kind) bool { return k == KindRecords }) // that has a finding of its own
	if len(kinds) > 0 {
		f = e.rightsOfKinds(kinds, missing)
	}
	if e.o.Prefix == "" && f.Severity != OK {
		f.Do += " If the user may use some names only, examine with --prefix."
	}
	if f.ID, f.Group = id, GroupRights; len(kinds) > 0 || len(e.o.Kinds) == 0 {
		e.add(f)
	}
	e.recordRights(missing)
}

// rightsOfKinds returns the finding about the kinds that must work.
func (e *exam) rightsOfKinds(kinds []Kind, missing map[Kind][]string) Finding {
	var names, locks, others []string
	var lacking []Kind
	for _, kind := range kinds {
		names = append(names, string(kind))
		words := missing[kind]
		if words == nil {
			continue
		}
		lacking = append(lacking, kind)
		if without := "(without " + brief(words) + ")"; kind.OnTop() || kind == KindLook {
			others = append(others, "the user lacks rights of --kind "+string(kind)+" "+without)
		} else {
			locks = append(locks, kind.Title()+" "+without)
		}
	}
	if lacking == nil {
		return Finding{Severity: OK, Found: "the user has the rights that --kind " + strings.Join(names, ",") + " needs"}
	}
	if locks != nil {
		others = slices.Insert(others, 0, "the user may not use "+strings.Join(locks, "; ")+", which --kind names")
	}
	return Finding{Severity: Critical, Found: strings.Join(others, "; "), Do: "Give it these rights.", Command: e.grant(lacking, missing)}
}

// rightsOfLocks returns the finding about all kinds of lock, of which none must work.
func (e *exam) rightsOfLocks(missing map[Kind][]string) Finding {
	var able, unable []string
	var lacking []Kind
	for _, r := range rows {
		switch words := missing[r.kind]; {
		case r.added:
		case words == nil:
			able = append(able, r.kind.Title())
		default:
			lacking = append(lacking, r.kind)
			unable = append(unable, fmt.Sprintf("%s (without %s)", r.kind.Title(), brief(words)))
		}
	}
	switch {
	case len(unable) == 0:
		return Finding{Severity: OK, Found: "the user has the rights that all kinds of lock need"}
	case len(able) == 0:
		return e.powerless(lacking, missing)
	}
	return Finding{
		Severity: Info, Found: "the user may use " + strings.Join(able, "; ") + ". It may not use " + strings.Join(unable, "; "),
		Do: "If it is to use them, give it these rights.", Command: e.grant(lacking, missing),
	}
}

// powerless returns the finding for a user who may use no kind of lock.
func (e *exam) powerless(kinds []Kind, missing map[Kind][]string) Finding {
	const few = 20   // words that a user lacks: of more it gets the whole rule
	next := kinds[0] // what it lacks the least for
	for _, kind := range kinds {
		if len(missing[kind]) < len(missing[next]) {
			next = kind
		}
	}
	f := Finding{
		Severity: Critical, Found: fmt.Sprintf("the user may use no kind of lock; for %s it lacks %s", next.Title(), brief(missing[next])),
		Do: "Give it the rights of the kinds that it is to use.", Command: e.acl(next),
	}
	if missing[KindLook] == nil {
		f.Do += " If it is only to look, examine with --kind look."
	}
	if len(missing[next]) <= few {
		f.Command = e.grant([]Kind{next}, missing)
	}
	return f
}

// narrowest returns the kinds whose rights a user is to have who may do nothing yet.
func (e *exam) narrowest() []Kind {
	if len(e.o.Kinds) > 0 {
		return e.o.Kinds
	}
	return []Kind{KindLock}
}

// recordRights looks at the rights to what clients publish about themselves, unless nothing must work that publishes.
func (e *exam) recordRights(missing map[Kind][]string) {
	if len(e.o.Kinds) > 0 && !slices.ContainsFunc(e.o.Kinds, Kind.hears) {
		return
	}
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
	return e.setuser(strings.Join(unique(words), " "))
}
