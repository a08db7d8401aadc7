package scan

import "context"

// Patience is how long an answer is waited for in a scan.
type Patience interface {
	// Aside runs f, whose time does not count.
	Aside(f func())
}

type patienceKey struct{}

// WithPatience returns a context for a scan that ends when its patience does.
func WithPatience(ctx context.Context, p Patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// Aside runs f, a pause of a driver. The patience of the scan that ctx belongs to, if there is one, is for answers only.
func Aside(ctx context.Context, f func()) {
	if p, ok := ctx.Value(patienceKey{}).(Patience); ok {
		p.Aside(f)
		return
	}
	f()
}
