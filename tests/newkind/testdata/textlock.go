package mortise

import (
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// TextLock is a lock that is a string in Redis: the id of its holder.
type TextLock struct {
	locker
	script script.TextLock
}

// TextLock returns the lock called name. It does no I/O.
func (c *Client) TextLock(name string) *TextLock {
	o := c.core.Object(name)
	k := &TextLock{script: c.core.Conn().TextLock(o.Key())}
	k.lock.Init(o, &textTraits, &k.script)
	return k
}

var textTraits = lease.Traits{Use: lease.NewUse(lease.Class{}), HandsOff: true}

// With returns a handle to the same lock that acquires it with these options.
func (k *TextLock) With(options LockOptions) *TextLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}
