// Package dashboard shows the locks in Redis on web pages: who holds what, who waits for it, and who blocks whom.
//
// It is an [net/http.Handler] for a server of one's own, at any path:
//
//	d := dashboard.New(goredis.Wrap(rdb), &dashboard.Options{Prefix: "app:"})
//	defer d.Close()
//	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", d))
//
// `mortise serve` is a server with nothing else. All URLs on the pages are relative, so a proxy may add or remove
// a path, too. The pages are complete without JavaScript; with it, they change as soon as something happens.
//
// # Security
//
// It is read-only unless [Options.Release] is set. It has no login: [Options.Authorize] asks that of the program
// around it. It refuses requests of other sites, requests whose Host is not its own ([Options.Hosts]), methods and
// bodies that it does not expect; its pages run no script and load no style but its own, and cannot be framed.
//
// # Load
//
// One poller looks at Redis for all browsers, as package watch describes it: within [Options.Load] commands a
// second, which each page shows. It looks every ten seconds while nobody looks at a page.
//
// What is shown comes from the records of mortise's clients and from the keys of locks. Whoever may write
// those can forge it.
package dashboard
