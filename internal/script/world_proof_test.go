//go:build proof

package script_test

const proof = true
