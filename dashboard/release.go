package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// releasePath is the page that releases a lock.
const releasePath = "release"

// actionLimit is how long a browser waits for an action.
const actionLimit = 10 * time.Second

// mostReason is the longest reason, in bytes.
const mostReason = 200

// releaseData is what the page shows. It is never changed while it is open.
type releaseData struct {
	Lock    name
	Kind    string
	Holder  who
	Owner   string
	Since   template.HTML
	Lease   template.HTML
	Waits   int
	Kept    bool
	CanAsk  bool
	CanFree bool   // by force
	URL     string // of the forms, with the owner
	Refused string // why nothing was done
	Now     *who   // the holder now, if it is another one
	NowURL  string
	Free    bool // nobody holds it
	Gone    bool // it has no holder that is known
	Reason  string
}

// verbs are what a form may say to do.
var verbs = map[string]Verb{"ask": Ask, "release": Release}

// release shows what the release of a lock would do, and does it.
func (b *Dashboard) release(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	lock, owner := q.Get("lock"), q.Get("owner")
	switch {
	case !b.options.Release:
		b.fail(w, r, http.StatusForbidden, "This dashboard is read-only", "It was started without the right to release locks: --release of mortise serve, or Options.Release.")
		return
	case lock == "" || owner == "":
		b.fail(w, r, http.StatusBadRequest, "The address is incomplete", "It names no lock, or no holder. The page of a lock has a link for each of its holders.")
		return
	}
	if r.Method != http.MethodPost {
		if b.allowed(w, r, Action{View, lock, owner}) && (b.may(r, Action{Ask, lock, owner}) || b.allowed(w, r, Action{Release, lock, owner})) {
			b.confirm(w, r, http.StatusOK, lock, owner, "")
		}
		return
	}
	if err := r.ParseForm(); err != nil {
		b.fail(w, r, http.StatusRequestEntityTooLarge, "The form cannot be read", err.Error())
		return
	}
	verb := verbs[r.PostForm.Get("do")]
	reason := strings.ToValidUTF8(r.PostForm.Get("reason"), "?")
	a := Action{verb, lock, owner}
	switch {
	case verb == "":
		b.fail(w, r, http.StatusBadRequest, "The form is incomplete", "It says neither to ask nor to release.")
	case len(reason) > mostReason:
		b.confirm(w, r, http.StatusBadRequest, lock, owner, "The reason is too long: at most 200 bytes are allowed. Nobody was asked.")
	case b.allowed(w, r, a):
		b.act(w, r, a, reason)
	}
}

// act does what a form says, if the holder is still the one that the form has shown.
func (b *Dashboard) act(w http.ResponseWriter, r *http.Request, a Action, reason string) {
	ctx, cancel := context.WithTimeout(r.Context(), actionLimit)
	defer cancel()
	state, err := b.errands.Inspect(ctx, a.Lock)
	if err == nil && !hasOwner(&state, a.Owner) {
		err = errChanged
	}
	if err == nil {
		switch a.Verb {
		case Ask:
			err = b.ask(ctx, &state, a, because(reason, b.user(r)))
		case Release:
			err = b.free(ctx, &state, a.Owner)
		}
	}
	if err != nil {
		done, status, text := "nothing was done", http.StatusConflict, "Nothing was done: "+err.Error()+"."
		if _, some := errors.AsType[*othersAsked](err); some {
			done, text = "asked others to release", "Only "+err.Error()+"."
		}
		b.log(r, done, a, err)
		b.poller.outdated(a.Lock) // the page that follows must not say what was
		if errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
			status, text = http.StatusBadGateway, "It is not certain that anything was done: "+err.Error()+". Look at the lock before you try again."
		}
		b.confirm(w, r, status, a.Lock, a.Owner, text)
		return
	}
	b.log(r, map[Verb]string{Ask: "asked to release", Release: "released by force"}[a.Verb], a, nil)
	b.poller.outdated(a.Lock)
	b.poller.wake()
	b.poller.soon()
	w.Header().Set("Location", href("lock", "name", a.Lock, "done", string(a.Verb)))
	w.WriteHeader(http.StatusSeeOther)
}

var (
	errChanged  = errors.New("the holder that the page has shown does not hold it any more")
	errUnlisted = errors.New("the lock has more holders than are asked at once")
	errDeaf     = errors.New("the holder cannot be asked: it is Redisson’s, hides what it is, or has the lock only since a moment ago")
)

// hasOwner reports whether an owner holds a lock, or a permit; or may, where not all are listed.
func hasOwner(s *mortise.State, owner string) bool {
	return s.Unlisted > 0 || slices.ContainsFunc(s.Holders, func(h mortise.Holder) bool { return h.Owner == owner || h.Owner == owner+":write" }) || len(permitsOf(s, owner)) > 0
}

// permitsOf returns the permits of an owner, whose record lists them, that are still held, as far as is known.
func permitsOf(s *mortise.State, owner string) (ids []string) {
	for id := range strings.SplitSeq(owner, ",") {
		if s.Unlisted > 0 || slices.ContainsFunc(s.Permits, func(p mortise.Permit) bool { return p.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// because adds to a reason where it comes from: the holder is told the host and the process of the dashboard, which say
// little. What does not fit is cut.
func because(reason, user string) string {
	from := "on the dashboard"
	if user != "" {
		from = "by " + brief(strings.ToValidUTF8(user, "?")) + " " + from
	}
	if reason == "" {
		return from
	}
	return cut(reason, mostReason-len("…, ")-len(from)) + ", " + from
}

// othersAsked is why one holder was not asked, although others of the same lock were.
type othersAsked struct {
	others int
	err    error
}

func (e *othersAsked) Error() string {
	return fmt.Sprintf("other holders were asked to release it (%d): %v", e.others, e.err)
}

func (e *othersAsked) Unwrap() error { return e.err }

// ask asks the holders of a lock, and returns why the one of the form was not asked.
func (b *Dashboard) ask(ctx context.Context, s *mortise.State, a Action, reason string) error {
	asked, err := b.errands.Ask(ctx, a.Lock, reason)
	others, why := 0, errChanged
	if s.Unlisted > 0 {
		why = errUnlisted
	}
	for _, h := range asked {
		switch own := h.Owner == a.Owner || h.Owner == a.Owner+":write"; {
		case own && h.Asked:
			return nil
		case own:
			why = errDeaf
		case h.Asked:
			others++
		}
	}
	if err != nil {
		why = err
	}
	if others > 0 {
		return &othersAsked{others, why}
	}
	return why
}

// free releases the lock of an owner, as its kind requires.
func (b *Dashboard) free(ctx context.Context, s *mortise.State, owner string) error {
	c := b.errands
	var freed bool
	var err error
	switch s.Kind {
	case mortise.KindFairLock:
		freed, err = c.FairLock(s.Name).UnlockOwner(ctx, owner)
	case mortise.KindRWLock:
		if s.Mode == "write" {
			freed, err = c.RWLock(s.Name).Write().UnlockOwner(ctx, strings.TrimSuffix(owner, ":write")+":write")
		} else {
			freed, err = c.RWLock(s.Name).Read().UnlockOwner(ctx, owner)
		}
	case mortise.KindElection:
		freed, err = c.Election(s.Name).DeposeOwner(ctx, owner)
	case mortise.KindGroupLock:
		freed, err = c.UnlockGroup(ctx, s.Name, owner)
	case mortise.KindPermits:
		var n int
		n, err = c.PermitSemaphore(s.Name).Release(ctx, permitsOf(s, owner)...)
		freed = n > 0
	default:
		freed, err = c.Lock(s.Name).UnlockOwner(ctx, owner)
	}
	if err == nil && !freed {
		err = errChanged
	}
	return err
}

// confirm shows the page: what a release would do, and why one was refused.
func (b *Dashboard) confirm(w http.ResponseWriter, r *http.Request, status int, lock, owner, refused string) {
	s := b.poller.current(r.Context())
	p := &pen{scene: s, now: b.poller.clock()}
	l := s.lock(lock)
	d := &releaseData{
		Lock: p.Lock(lock), Kind: kindWord(l.Kind), Owner: shown(cut(owner, 200)), Waits: l.Waiting(), URL: href(releasePath, "lock", lock, "owner", owner),
		Refused: refused, CanAsk: !counts(l.Kind) && b.may(r, Action{Ask, lock, owner}), CanFree: b.may(r, Action{Release, lock, owner}), Reason: cut(r.PostForm.Get("reason"), mostReason), Holder: p.Who(&watch.Party{Owner: owner}),
	}
	held := b.poller.detail(lock, false, func(g *glance) bool { return disagree(l, g) })
	found := false
	for _, h := range p.asInRedis(l, &held) {
		if short(h.Party.Owner) == short(owner) {
			found = true
			d.Holder, d.Since, d.Lease, d.Kept = p.Who(&h.Party), p.Age(h.Since), p.Left(s.end(h)), h.Party.Kept()
		} else if d.Now == nil {
			other := p.Who(&h.Party)
			d.Now, d.NowURL = &other, href(releasePath, "lock", lock, "owner", h.Party.Owner)
		}
	}
	known := held.Read && held.Err == nil
	if known {
		found = hasOwner(&held.State, owner)
	}
	d.Free = known && !held.State.Locked && !found
	d.Gone = !found && d.Now == nil
	if d.Free || found {
		d.Now = nil
	}
	if !found && refused == "" {
		if held.Err != nil {
			b.fail(w, r, http.StatusBadGateway, "The lock cannot be read", "Whether this holder still holds it is not known: "+held.Err.Error()+".")
			return
		}
		d.Refused = "This holder does not hold the lock any more."
	}
	f := b.frameOf("Release "+d.Lock.Text, nil)
	f.Heading = "Release " + d.Lock.Text + "?"
	f.Body = template.HTML(b.execute("release", d)) // by a template
	b.write(w, r, status, f)
}

// doneText says what an action has done.
func doneText(verb string) string {
	switch Verb(verb) {
	case Ask:
		return "The holder was asked to release the lock. It shows here when it has."
	case Release:
		return "The lock was released by force. Its former holder learns of it at its next renewal, at most a third of its lease later."
	}
	return ""
}
