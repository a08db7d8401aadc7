// Package survey asks Redis many times for one answer, such as a list of locks: a [Walk] ends when Redis has not answered for as long as
// the client's options say (walk.go), and servers of a cluster that cannot be read are [Missing], while what the others have is listed
// (missing.go).
//
// It knows clients and servers, and no locks. A walk has a mutex for the number of those who pause aside.
package survey
