// Package browser tests the dashboard in a real Chromium: that pages change in place while somebody types, that a
// release asks and is refused, that other sites get nowhere, that everybody can read the pages, and that they work
// without scripts. It is a module of its own, outside the workspace, because it drives a browser:
//
//	cd tests/browser && GOWORK=off go test .
//	cd tests/browser && GOWORK=off go test . -run Screens -args -screens   # writes the pictures of the documents
package browser
