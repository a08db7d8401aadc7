package script

import "context"

// SpinLock is the operations of a lock whose releases are not announced.
type SpinLock struct{ Lock }

// SpinLock returns the operations of the lock called name.
func (c *Conn) SpinLock(name string) SpinLock { return SpinLock{c.Lock(name)} }

// Channel is empty.
func (k *SpinLock) Channel() string { return "" }

// Release releases the lock entirely.
func (k *SpinLock) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	became, err := LockRelease(ctx, k.driver(), k.name, id, Silent, Turns{})
	return Freed{Released: became}, err
}
