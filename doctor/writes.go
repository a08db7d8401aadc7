package doctor

import (
	"context"
	_ "embed"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

//go:embed lua/writes.lua
var writesText string

var tryWrite = driver.NewScript("doctor_writes", writesText)

// writes looks at whether the servers accept writes. What their settings say about that depends on their version.
func (e *exam) writes(ctx context.Context) {
	const id = "writes"
	for _, key := range e.keys() {
		if key == "" {
			key = e.o.Prefix + probe
		}
		_, err := e.eval(ctx, tryWrite, key)
		switch {
		case err == nil, classOf(err) == driver.WrongType: // the server looks at the type last
			continue
		case mayNot(err):
			e.add(e.unknown(id, GroupServer, err, "hdel"))
		case strings.Contains(err.Error(), "READONLY"): // its role says so
		default:
			e.add(Finding{
				ID: id, Group: GroupServer, Severity: Critical, Found: "the server refuses writes: nothing can be locked, and leases cannot be renewed: " + said(err),
				Do: "Look at its log, its disk and its replicas.", Command: e.cli("", "info persistence") + "\n" + e.cli("", "info replication"),
			})
		}
		return
	}
	e.add(Finding{ID: id, Group: GroupServer, Severity: OK, Found: "writes are accepted"})
}
