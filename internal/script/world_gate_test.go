//go:build !proof

package script_test

// proof tells that what depends on real time is shown, too.
const proof = false
