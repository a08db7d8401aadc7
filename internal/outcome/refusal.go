package outcome

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Refusals makes the errors for refusals that callers find with [errors.As].
type Refusals interface {
	// Held makes the error for a refusal because of a holder.
	Held(by script.Holder) error
	// NoPermits makes the error for a refusal because of a lack of permits.
	NoPermits(lack script.PermitRefusal) error
}

// Refusal is why Redis refused a request: because of a holder or, if lack is not nil, for
// lack of permits.
type Refusal struct {
	By     script.Holder
	Lack   *script.PermitRefusal
	Server string // of a Redlock, which refused
}

// Left returns the time for which the refusal stands at most, unless prolonged; -1 if
// that is not known.
func (r *Refusal) Left() time.Duration {
	if r.Lack != nil {
		return r.Lack.Next
	}
	return r.By.TTL
}

// Of returns the refusal of a request for that many permits, if it was for lack of permits.
func (r *Refusal) Of(wanted int) *Refusal {
	if r.Lack == nil || r.Lack.Wanted == wanted {
		return r
	}
	lack := *r.Lack
	lack.Wanted = wanted
	return &Refusal{Lack: &lack}
}

// RefusedError is the error of a request that was refused and does not wait.
type RefusedError struct {
	Refusal
	Err error // for callers
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// RefusalIn returns the error for callers of the refusal that err is about, or nil.
func RefusalIn(err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Err
	}
	if wait, ok := errors.AsType[*waitError](err); ok && errors.Is(wait.why, ErrLocked) {
		return wait.why
	}
	return nil
}

// AsError returns the error for a refusal. Each caller gets an error of its own, to which its call adds
// what is known of the holder; see identify.
func (r *Refusal) AsError(e Refusals) *RefusedError {
	var err error
	if r.Lack != nil {
		err = e.NoPermits(*r.Lack)
	} else {
		err = e.Held(r.By)
	}
	if r.Server != "" {
		err = fmt.Errorf("%s: %w", r.Server, err)
	}
	return &RefusedError{*r, err}
}
