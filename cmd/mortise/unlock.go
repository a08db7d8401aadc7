package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/doctor"
)

const unlockLong = `unlock releases a lock from outside, for operators. With --owner and --force the holder
cannot prevent it: a mortise holder notices at its next renewal, at most a third of its
lease later, a Redisson holder not before it releases. Until then, two clients may
believe that they hold the lock. Make sure that the holder is dead.

Without a flag it releases nothing, and shows the holders of the lock and the
commands that would ask them and release it.

With --ask it asks the holders to release the lock, and says of each whether it could be
asked: mortise run and elect then end their command, gently, and release; a program with
the library does what it was written to do. The holder is told --reason, and the host
and the process that ask. With --wait it waits until those holders have released the
lock. If they have not by then, it fails, or, with --force, frees the lock of those same
holders, and of no other: then there is no question, because --wait was the time to
think. A holder sees the request at once; if the user may not publish, within ten
seconds. Redisson's threads, and clients that hide their identity, cannot be asked. Of a
lock with more than a thousand holders a thousand are asked, and not waited for.

A fenced lock that is released by force draws a token: the fence of a fencing guard whose
resource has the name of the lock is moved on with it, and refuses what the old holder
still writes. Other resources refuse it once they have seen a newer token.

On a terminal, --force shows who will lose the lock, and asks. If another one holds
it when the answer comes, nothing is released. In scripts, where nobody can be
asked, --force needs --yes.`

// unlockFlags are the values of the flags.
type unlockFlags struct {
	owner      string
	force, yes bool
	ask        bool
	reason     string
	wait       duration.Flag
}

func unlockCommand(a *app) *cobra.Command {
	var f unlockFlags
	cmd := &cobra.Command{
		Use:        "unlock NAME (--owner OWNER | --force [--yes] | --ask [--wait DUR [--force]])",
		SuggestFor: []string{"release", "free"},
		Short:      "Release a lock whose holder is gone, or ask the holder to release it",
		Long: unlockLong + asks("it was released, or was not locked; with --ask: all holders were asked",
			"   1  it was not released; with --ask: not all holders could be asked", "  75  --ask --wait: it was not released in time"),
		Example: "  mortise unlock deploy --ask --reason 'hotfix' --wait 10s\n" +
			"  mortise unlock deploy --owner 8f1c2b3a-0000-4000-8000-000000000001:77",
		Args:              a.oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			byOwner := cmd.Flags().Changed("owner")
			if err := f.check(a, cmd, args[0]); err != nil {
				return err
			}
			return a.unlock(cmd.Context(), args[0], func(ctx context.Context, u unlocking) error {
				switch {
				case f.ask:
					return u.petition(ctx, askPlan{f.reason, time.Duration(f.wait), f.force})
				case byOwner:
					return u.owner(ctx, f.owner)
				case f.force && f.yes:
					return u.force(ctx)
				case f.force:
					return u.ask(ctx)
				}
				return u.nothing()
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.owner, "owner", "", "release it only if `OWNER`, as shown by mortise show, still holds it; for a semaphore, the permit with that id")
	flags.BoolVar(&f.force, "force", false, "release it regardless of its holder; for a read/write lock both sides, for a semaphore all permits; asks first")
	flags.BoolVarP(&f.yes, "yes", "y", false, "with --force, do not ask")
	flags.BoolVar(&f.ask, "ask", false, "ask the holders to release it")
	flags.StringVar(&f.reason, "reason", "", "with --ask, `TEXT` that the holders are shown; at most 200 bytes")
	flags.VarP(&f.wait, "wait", "w", "with --ask, wait at most `DUR` until they have released it: 90s, 1m30s, or seconds; with 0, as without it, it does not wait")
	if err := cmd.RegisterFlagCompletionFunc("owner", a.completeOwner); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// check checks the flags for a lock called name.
func (f *unlockFlags) check(a *app, cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("owner") {
		return f.checkOwner(a, name)
	}
	if err := f.checkAsk(cmd); err != nil || f.ask {
		return err
	}
	if f.force && !f.yes && !a.canAsk() {
		return a.lineError("In a script: ", "unlock --force --yes "+nameArgs(name),
			"unlock --force asks before it releases a lock, but there is no terminal to ask on")
	}
	return nil
}

// checkOwner checks what goes with --owner.
func (f *unlockFlags) checkOwner(a *app, name string) error {
	switch {
	case f.force:
		return usageError("", "--owner and --force exclude each other")
	case f.ask:
		return usageError("", "--owner and --ask exclude each other")
	case f.owner == "":
		return a.lineError("To see the owner: ", "show "+nameArgs(name), "--owner is empty")
	}
	return nil
}

// checkAsk checks what goes with --ask.
func (f *unlockFlags) checkAsk(cmd *cobra.Command) error {
	switch changed := cmd.Flags().Changed; {
	case !f.ask && (changed("reason") || changed("wait")):
		return usageError("", "--reason and --wait go with --ask")
	case f.ask && f.force && f.wait <= 0:
		return usageError("To release it at once, leave out --ask.", "--ask with --force needs --wait: the time that the holders have")
	}
	return nil
}

// unlock does something about the lock called name.
func (a *app) unlock(ctx context.Context, name string, do func(context.Context, unlocking) error) error {
	client, err := a.client(ctx, asking)
	if err != nil {
		return err
	}
	defer leave(client)
	u := unlocking{app: a, client: client, name: name}
	a.kinds = string(doctor.KindInspect)
	if u.state, err = client.Inspect(ctx, name); err != nil {
		return err
	}
	a.kinds = rightsOf(u.state.Kind)
	if u.state.Kind == mortise.KindOther || u.state.Kind == mortise.KindNumber {
		return &mortise.Error{Op: "unlock", Name: name, Err: fmt.Errorf("%w: the key is not a lock", mortise.ErrWrongKind)}
	}
	return do(ctx, u)
}

// rightsOf returns the kind of rights, for mortise acl, that a lock of that kind needs.
func rightsOf(kind mortise.Kind) string {
	rights := map[mortise.Kind]doctor.Kind{mortise.KindFairLock: doctor.KindFair, mortise.KindFencedLock: doctor.KindFenced, mortise.KindRWLock: doctor.KindRW,
		mortise.KindGroupLock: doctor.KindGroup, mortise.KindElection: doctor.KindElection, mortise.KindPermits: doctor.KindPermits}
	return string(cmp.Or(rights[kind], doctor.KindLock))
}

// unlocking is one run of unlock.
type unlocking struct {
	app    *app
	client *mortise.Client
	name   string
	state  mortise.State // before the command
}

// free releases the lock of one owner, as its kind requires.
func (u unlocking) free(ctx context.Context, owner string) (bool, error) {
	switch u.state.Kind {
	case mortise.KindFairLock:
		return u.client.FairLock(u.name).UnlockOwner(ctx, owner)
	case mortise.KindRWLock:
		if strings.HasSuffix(owner, ":write") {
			return u.client.RWLock(u.name).Write().UnlockOwner(ctx, owner)
		}
		return u.client.RWLock(u.name).Read().UnlockOwner(ctx, owner)
	case mortise.KindElection:
		return u.client.Election(u.name).DeposeOwner(ctx, owner)
	case mortise.KindGroupLock:
		return u.client.UnlockGroup(ctx, u.name, owner)
	case mortise.KindPermits:
		n, err := u.client.PermitSemaphore(u.name).Release(ctx, owner)
		return n > 0, err
	default:
		return u.client.Lock(u.name).UnlockOwner(ctx, owner)
	}
}

func (u unlocking) owner(ctx context.Context, owner string) error {
	freed, err := u.free(ctx, owner)
	if err != nil {
		return err
	}
	if freed {
		h := mortise.Holder{Owner: owner}
		for _, one := range u.state.Holders {
			if one.Owner == owner {
				h = one
			}
		}
		fmt.Fprintf(u.app.stdout, "freed %s, which was held by %s\n", shown(u.name), u.victim(h))
		return nil
	}
	state, err := u.client.Inspect(ctx, u.name)
	if err != nil {
		return err
	}
	now := "nobody holds it"
	if state.Locked {
		now = "it is " + holding(state)
	}
	return &exitError{code: exitOther, err: fmt.Errorf("%s was not freed: %s does not hold it; %s", shown(u.name), shown(owner), now)}
}

// ask shows who will lose the lock, and asks the user whether to release it. It releases nothing that
// the user has not seen.
func (u unlocking) ask(ctx context.Context) error {
	if !u.state.Locked {
		fmt.Fprintf(u.app.stdout, "%s was not locked\n", shown(u.name))
		return nil
	}
	u.app.say("%s is %s", shown(u.name), holding(u.state))
	if n := len(u.state.Queue); n > 0 {
		u.app.say("%s", counted(n, "waiter")+" in its queue")
	}
	question := "Release it? If its holder is alive, two will believe that they hold it."
	if allKept(u.state) {
		question = "Release it? The next run may then start before --min-hold is over."
	}
	if !u.app.confirmed(question) {
		return &exitError{code: exitOther, err: errors.New("nothing was released")}
	}
	freed, err := u.freeAll(ctx)
	if err != nil || freed {
		return err
	}
	now := "nobody holds it now"
	if u.state, err = u.client.Inspect(ctx, u.name); err != nil {
		return err
	}
	if u.state.Locked {
		now = "it is " + holding(u.state)
	}
	return &exitError{code: exitOther, err: fmt.Errorf("%s has changed hands meanwhile, so nothing was released: %s", shown(u.name), now)}
}

// freeAll releases the lock of those who held it when it was inspected; if those were too many to be listed, of all who
// hold it. It reports whether any of them still did.
func (u unlocking) freeAll(ctx context.Context) (done bool, err error) {
	for {
		some, err := u.freeListed(ctx)
		done = done || some
		if err != nil || !some || u.state.Unlisted == 0 {
			return done, err
		}
		if u.state, err = u.client.Inspect(ctx, u.name); err != nil {
			return done, err
		}
	}
}

// unlisted returns an error if Redis names no holder of a lock that is held: then nobody can be asked, nor lose it.
func (u unlocking) unlisted() error {
	if u.state.Unlisted == 0 || len(u.state.Holders)+len(u.state.Permits) > 0 {
		return nil
	}
	return &exitError{code: exitDenied, hint: "Give the user the rights to HRANDFIELD and HSCAN. This prints all that is needed: " + u.app.aclLine(string(doctor.KindInspect)),
		err: fmt.Errorf("the holders of %s are not named: there are %d, too many to be read at once", shown(u.name), u.state.Unlisted)}
}

// freeListed releases the lock of those that the state lists.
func (u unlocking) freeListed(ctx context.Context) (done bool, err error) {
	if len(u.state.Permits) > mostNamed {
		return u.freePermits(ctx)
	}
	holders := u.state.Holders
	for _, p := range u.state.Permits {
		holders = append(holders, mortise.Holder{Owner: p.ID, Count: 1})
	}
	for _, h := range holders {
		freed, err := u.free(ctx, h.Owner)
		if freed {
			done = true
			fmt.Fprintf(u.app.stdout, "freed %s, which was held by %s (count %d)\n", shown(u.name), u.victim(h), h.Count)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// freePermits releases the permits that the state lists, at once.
func (u unlocking) freePermits(ctx context.Context) (done bool, err error) {
	var ids []string
	for _, p := range u.state.Permits {
		ids = append(ids, p.ID)
	}
	n, err := u.client.PermitSemaphore(u.name).Release(ctx, ids...)
	if n > 0 {
		fmt.Fprintf(u.app.stdout, "freed %s of %s\n", counted(n, "permit"), shown(u.name))
	}
	return n > 0, err
}

// victim names a holder that has lost the lock: its process and its owner.
func (u unlocking) victim(h mortise.Holder) string {
	if h.Client == nil {
		return shown(h.Owner)
	}
	return ownerText(h, u.state.Now) + ", " + shown(h.Owner)
}

// force releases the lock of all its holders. If it has changed hands meanwhile, force inspects it
// again.
func (u unlocking) force(ctx context.Context) error {
	for u.state.Locked {
		if err := u.unlisted(); err != nil {
			return err
		}
		done, err := u.freeAll(ctx)
		if err != nil || done {
			return err
		}
		if u.state, err = u.client.Inspect(ctx, u.name); err != nil {
			return err
		}
	}
	fmt.Fprintf(u.app.stdout, "%s was not locked\n", shown(u.name))
	return nil
}

// nothing shows the holders and how to release the lock.
func (u unlocking) nothing() error {
	if !u.state.Locked {
		fmt.Fprintf(u.app.stdout, "%s is not locked\n", shown(u.name))
		return nil
	}
	lines := u.app.unlockLines(u.state)
	if u.canBeAsked() {
		lines = append([]string{"First ask it to release the lock itself:", u.app.unlockLine(u.name, "--ask --wait 10s")}, lines...)
	}
	hint := strings.Join(lines, "\n")
	if allKept(u.state) {
		hint = "It becomes free by itself. To release it now:\n" + u.app.unlockLine(u.name, "--force")
	}
	return &exitError{code: exitOther, hint: hint, err: errors.New(shown(u.name) + " was not freed: it is " + holding(u.state))}
}

// canBeAsked reports whether a holder publishes what it is: then it can be asked.
func (u unlocking) canBeAsked() bool {
	return u.state.Kind != mortise.KindPermits && slices.ContainsFunc(u.state.Holders, func(h mortise.Holder) bool { return h.Client != nil && !h.Kept() })
}

// unlockLines returns the commands that release a lock, with an introduction.
func (a *app) unlockLines(s mortise.State) []string {
	lines := []string{"If its holder is gone for good:"}
	if len(s.Holders)+len(s.Permits) > 1 {
		lines = []string{"For each holder that is gone for good:"}
	}
	var owners []string
	for _, h := range s.Holders {
		owners = append(owners, h.Owner)
	}
	for _, p := range s.Permits {
		owners = append(owners, p.ID)
	}
	for _, owner := range owners[:min(len(owners), mostNamed)] {
		lines = append(lines, a.unlockLine(s.Name, "--owner "+shellQuote(owner)))
	}
	if len(owners) > mostNamed {
		lines = append(lines, "The others: "+a.self()+" show --json "+nameArgs(s.Name))
	}
	return lines
}

// unlockLine returns a command that releases a lock.
func (a *app) unlockLine(name, flags string) string {
	if strings.HasPrefix(name, "-") {
		return "  " + a.self() + " unlock " + flags + " " + nameArgs(name)
	}
	return "  " + a.self() + " unlock " + shellQuote(name) + " " + flags
}
