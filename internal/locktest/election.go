package locktest

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
)

// MustLead campaigns where the test expects to be elected.
func MustLead(t *testing.T, e *mortise.Election, ctx context.Context, value string) (*mortise.Term, context.Context) {
	t.Helper()
	term, ctx, err := e.Campaign(ctx, value)
	if err != nil {
		t.Fatal(err)
	}
	return term, ctx
}

// MustResign ends a term that the test expects to be held.
func MustResign(t *testing.T, term *mortise.Term) {
	t.Helper()
	if err := term.Resign(); err != nil {
		t.Fatal(err)
	}
}
