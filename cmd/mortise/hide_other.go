//go:build !linux

package main

import "errors"

// hide has no place here that only this user can read, and that ends with this process.
func (a *app) hide(string) (path string, err error) {
	return "", errors.New("this system has no place for it; use MORTISE_REDIS_URL or " + envPasswordFile)
}
