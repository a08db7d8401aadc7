// Command mortise runs commands under distributed locks, and shows and releases those locks. It
// works with Redis and Valkey, and with the locks of Redisson.
//
//	mortise run NAME -- CMD [ARG…]
//
// See mortise help, and mortise run --help for the exit codes.
package main

import "os"

func main() { os.Exit(newApp().main(os.Args[1:])) }
