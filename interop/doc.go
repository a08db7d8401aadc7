// Package interop holds the tests that prove mortise and Redisson contend on
// the same locks: real Redis servers, real Go clients, and a Java process
// (directory redisson) that runs unmodified releases of Redisson.
//
// They need Java and Maven and take minutes, so they carry the build tag
// interop and "go test ./..." leaves them out. Run them with
//
//	make interop
//
// which builds the Java side for every release named in redisson/versions and
// ends with a table of what was proved.
package interop
