package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise"
)

// The environment of a command that runs under a lock.
const (
	envName  = "MORTISE_NAME"
	envOwner = "MORTISE_OWNER"
	envHeld  = "MORTISE_HELD"
	envToken = "MORTISE_TOKEN" // the fencing token, if there is one
	// envHolds has a line for each name that a run around the command holds, those of the
	// innermost run first; see outer. The name is that in Redis, with the prefix. It has no line
	// breaks.
	envHolds = "MORTISE_HOLDS"
	// envRedis is passed on, so that a nested mortise uses the same Redis.
	envRedis = "MORTISE_REDIS_URL"
)

// claim is one thing that a run acquires.
type claim struct {
	kind    claimKind
	name    string
	permits int // of a permit: how many
}

// claimKind is the kind of a claim: an outer hold covers the claim of an inner run only if it is of
// the right kind.
type claimKind string

const (
	claimLock   claimKind = "lock" // also of a fair lock: they are one lock
	claimFence  claimKind = "fence"
	claimRead   claimKind = "read"
	claimWrite  claimKind = "write"
	claimPermit claimKind = "permit"
	claimLead   claimKind = "lead"
)

// outer is a hold that a run around this process claims to have.
type outer struct {
	claim
	owners []string // one, or those of several locks acquired together, or the permits
	token  string   // "0" if there is none
}

func (o outer) String() string {
	return fmt.Sprintf("%s %s %s %s", o.kind, strings.Join(o.owners, ","), o.token, o.name)
}

// outers returns the holds that the runs around this process claim to have under a name. The
// environment alone proves nothing; a process may outlive the run that started it.
func (a *app) outers(name string) (found []outer) {
	if a.getenv(envHeld) == "" {
		return nil
	}
	for line := range strings.Lines(a.getenv(envHolds)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) == 4 && f[3] == a.keyPrefix()+name {
			o := outer{claim{kind: claimKind(f[0]), name: name}, strings.Split(f[1], ","), f[2]}
			o.permits = len(o.owners)
			found = append(found, o)
		}
	}
	return found
}

// covers reports whether the hold o of an outer run satisfies the claim c of an inner one, without
// an acquisition. The error says that c is impossible while the outer run has o: the inner run
// would wait for its own outer run.
func (o outer) covers(c claim) (bool, error) {
	stuck := func(hint, format string, args ...any) (bool, error) {
		return false, usageError(hint, "the run around this one "+format, args...)
	}
	switch {
	case c.kind == claimLock && o.kind == claimFence, c.kind == claimRead && o.kind == claimWrite:
		return true, nil
	case c.kind == claimFence && o.kind == claimLock:
		return stuck("Give --fence to the outer run.", "has %s without a fencing token", shown(c.name))
	case c.kind == claimWrite && o.kind == claimRead:
		return stuck("Give --write to the outer run.", "reads %s; it would have to end before one inside it can write", shown(c.name))
	case c.kind != o.kind:
		return false, nil // Redis reports what is wrong with that
	case c.permits > o.permits:
		return stuck("Have the outer run take them all.", "has %s of %s, and %d are wanted inside it", counted(o.permits, "permit"), shown(c.name), c.permits)
	}
	return true, nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// has reports whether o is held, according to Redis.
func (o outer) has(ctx context.Context, client *mortise.Client) (bool, error) {
	var there []string
	var err error
	switch o.kind {
	case claimPermit:
		var out []mortise.Permit
		out, err = client.PermitSemaphore(o.name).List(ctx)
		for _, p := range out {
			there = append(there, p.ID)
		}
	case claimLead:
		var leader mortise.Leader
		if leader, err = client.Election(o.name).Leader(ctx); errors.Is(err, mortise.ErrNoLeader) {
			return false, nil
		}
		there = []string{leader.Owner}
	default:
		var state mortise.State
		state, err = client.Inspect(ctx, o.name)
		if state.Unlisted > 0 { // it may be one of those
			return true, err
		}
		for _, h := range state.Holders {
			there = append(there, h.Owner)
		}
	}
	held := func(owner string) bool { return slices.Contains(there, owner) }
	if o.kind == claimPermit {
		return !slices.ContainsFunc(o.owners, func(id string) bool { return !held(id) }), err
	}
	return slices.ContainsFunc(o.owners, held), err
}

// covering returns the hold of an outer run that covers c, or nil.
func (a *app) covering(ctx context.Context, client *mortise.Client, c claim) (*outer, error) {
	var stuck error
	for _, o := range a.outers(c.name) {
		covers, why := o.covers(c)
		if !covers && why == nil {
			continue
		}
		held, err := o.has(ctx, client)
		switch {
		case err != nil:
			return nil, err
		case held && covers:
			return &o, nil
		case held:
			stuck = why
		}
	}
	return nil, stuck
}

// uncovered returns p without the claims that outer runs cover, and the first hold that covers one;
// nil in place of p if nothing is left to acquire.
func (a *app) uncovered(ctx context.Context, client *mortise.Client, p *plan) (left *plan, by *outer, err error) {
	some := *p
	some.claims = nil
	for _, c := range p.claims {
		o, err := a.covering(ctx, client, c)
		switch {
		case err != nil:
			return nil, nil, err
		case o == nil:
			some.claims = append(some.claims, c)
			continue
		case by == nil:
			by = o
		}
		if p.verbose {
			a.say("%s is held by the run around this one", shown(c.name))
		}
	}
	if len(some.claims) == 0 {
		return nil, by, nil
	}
	return &some, by, nil
}

// childEnv returns the environment of a command that runs under the holds of p.
func (a *app) childEnv(p *plan, hold grip) []string {
	token := strconv.FormatInt(hold.Token(), 10)
	var holds strings.Builder
	for _, c := range p.claims {
		c.name = a.keyPrefix() + c.name
		fmt.Fprintln(&holds, outer{c, strings.Split(strings.ReplaceAll(hold.Owner(), " ", ""), ","), token})
	}
	set := env(p.name, hold.Owner(), token)
	set[envHolds] = strings.TrimSuffix(holds.String()+a.getenv(envHolds), "\n")
	return with(a.passOn(set))
}

// innerEnv returns the environment of a command that runs under the hold of an outer run.
func (a *app) innerEnv(p *plan, by *outer) []string {
	return with(a.passOn(env(p.name, strings.Join(by.owners, ","), by.token)))
}

// env returns the variables that describe a lock to the command under it.
func env(name, owner, token string) map[string]string {
	set := map[string]string{envName: name, envOwner: owner, envHeld: "1"}
	if token != "0" {
		set[envToken] = token
	}
	return set
}

// with returns this process' environment with some variables set. It contains no token but that of
// the lock in question.
func with(set map[string]string) (all []string) {
	for _, entry := range os.Environ() {
		key, _, _ := strings.Cut(entry, "=")
		if _, ours := set[key]; !ours && key != envToken {
			all = append(all, entry)
		}
	}
	for key, value := range set {
		all = append(all, key+"="+value)
	}
	return all
}
