// Package locktest has what the black-box tests of locks share: virtual time with an embedded
// Redis, a driver with faults, the kinds of lock, and steps that a test expects to succeed.
package locktest
