package mortise

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// HeldError describes the holder of a lock. It matches [ErrLocked]. Without an owner, and with the count 0, the
// lock is free, but left for a moment to threads of Redisson's that wait for it.
type HeldError struct {
	Holder
	// Own reports that the holder is a hold of the same [Client]: of another goroutine, or of
	// the caller, if that acquired the lock again with the outer context. Only the context
	// that Lock returned re-enters. It is false for a [Redlock], whose owners are not those of its clients.
	Own bool
	// TTL is the remaining time of the holder's lease when Redis was asked,
	// unless it is renewed; -1 if the key has no TTL.
	TTL time.Duration

	now        time.Time // of Redis' clock, when Since was read
	identified bool      // nothing is written any more
}

// Held returns for how long the holder had had the lock when its record was read; 0 if that is not
// known.
func (e *HeldError) Held() time.Duration {
	if e.Since.IsZero() || e.now.Before(e.Since) {
		return 0
	}
	return e.now.Sub(e.Since)
}

// holder names the holder, and says for how long it has had the lock, as far as that is known.
func (e *HeldError) holder() string {
	text := e.Holder.String()
	if e.Owner == "" {
		text = "one of many"
	}
	if d := e.Held(); d > 0 {
		text += " for " + d.Round(roughly(d)).String()
	}
	return text
}

// roughly returns what to round d to for people.
func roughly(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return 100 * time.Millisecond
	}
	return time.Second
}

// Error names the holder, and the remaining time of its lease.
func (e *HeldError) Error() string {
	if e.Owner == "" && e.Count == 0 {
		return fmt.Sprintf("free, but left to threads of Redisson's for another %v", e.TTL.Round(time.Millisecond))
	}
	if e.Count == 0 {
		return fmt.Sprintf("free, but %v is the next to have it", &e.Holder)
	}
	left := e.TTL.Round(time.Millisecond)
	text := fmt.Sprintf("held by %s for another %v unless renewed or released", e.holder(), left)
	switch owner, kept := script.KeptBy(e.Owner); {
	case e.TTL < 0:
		text = fmt.Sprintf("held by %s, without a time limit", e.holder())
	case kept:
		text = fmt.Sprintf("kept for another %v by the MinHold of its last holder, %s", left, readable(owner))
	case e.Client != nil:
		text = fmt.Sprintf("held by %s; its lease lasts for another %v unless renewed or released", e.holder(), left)
	}
	if e.Own {
		text += "; that is a hold of this client, which only the context of the hold re-enters"
	}
	return text
}

// readable makes foreign text fit for a log line: it limits the length, and
// quotes text that could be mistaken for anything else.
func readable(text string) string {
	const most = 200
	more := ""
	if len(text) > most {
		text, more = text[:most], "..."
	}
	if quoted := strconv.Quote(text); text == "" || strings.ContainsRune(text, ' ') || quoted != `"`+text+`"` {
		text = quoted
	}
	return text + more
}

// Is makes a HeldError match ErrLocked.
func (e *HeldError) Is(target error) bool { return target == ErrLocked }

// PermitsError says how many permits were missing. It matches [ErrNoPermits], and
// [ErrNotSet] if there is no semaphore.
type PermitsError struct {
	Wanted    int
	Available int // when Redis was asked; may be below 0
	// Next is an upper bound on the time until a permit expires, unless its
	// lease is renewed; -1 if none is known to expire.
	Next time.Duration
	// Unset is true if there is no semaphore: its number of permits was never set,
	// or it was deleted.
	Unset bool
}

// Error returns the numbers of permits that were requested and available.
func (e *PermitsError) Error() string {
	if e.Unset {
		return fmt.Sprintf("permits wanted: %d, but %v", e.Wanted, ErrNotSet)
	}
	if e.Available >= e.Wanted {
		return fmt.Sprintf("permits wanted: %d; the %d available are reserved for other waiters", e.Wanted, e.Available)
	}
	return fmt.Sprintf("permits wanted: %d, available: %d", e.Wanted, e.Available)
}

// Is makes a PermitsError match ErrNoPermits, and ErrNotSet if Unset is true.
func (e *PermitsError) Is(target error) bool {
	return target == ErrNoPermits || e.Unset && target == ErrNotSet
}

func permitsError(lack script.PermitRefusal) *PermitsError {
	return &PermitsError{Wanted: lack.Wanted, Available: lack.Available, Next: lack.Next, Unset: lack.Unset}
}

// MissingError says what a latch or a barrier still waited for when Redis was asked last.
// It matches [ErrMissing].
type MissingError struct {
	Missing int // how often the latch must be counted down, or how many parties are missing
	Of      int // the number of parties; 0 for a latch
	inside  bool
}

// Error says how many of what are missing.
func (e *MissingError) Error() string {
	switch {
	case e.Of == 0:
		if e.Missing == 1 {
			return "1 more count-down is needed"
		}
		return fmt.Sprintf("%d more count-downs are needed", e.Missing)
	case e.inside:
		return fmt.Sprintf("parties still inside: %d of %d", e.Missing, e.Of)
	}
	return fmt.Sprintf("parties missing: %d of %d", e.Missing, e.Of)
}

// Is makes a MissingError match ErrMissing.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }
