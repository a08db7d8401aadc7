package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mortise-go/mortise"
)

// versions looks at which client libraries are connected.
func (e *exam) versions(ctx context.Context) {
	const id = "libraries"
	seen := make(map[string]int)
	for _, s := range e.servers {
		v, err := e.command(ctx, s.addr, "CLIENT", "LIST")
		if err != nil {
			e.addOnce(e.unknown(id, GroupClients, err, "client|list"))
			return
		}
		for line := range strings.Lines(v.Str()) {
			if name := library(line); name != "" {
				seen[name]++
			}
		}
	}
	f := Finding{ID: id, Group: GroupClients, Severity: OK, Found: "no connected client says which library it is"}
	if len(seen) > 0 {
		names := slices.Sorted(maps.Keys(seen))
		f.Found = "the connected clients are of " + listed(names)
		f = f.about(names)
	}
	e.add(f)
}

// library returns what a line of CLIENT LIST says of the library of a client, and its version.
func library(line string) string {
	var name, version string
	for part := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "lib-name":
			name = value
		case "lib-ver":
			version = value
		}
	}
	if name == "" {
		return ""
	}
	return strings.TrimSpace(name + " " + version)
}

// sides looks at which versions of mortise work side by side.
func (e *exam) sides(clients []mortise.ClientState) {
	const id = "versions"
	by := make(map[string][]string) // the clients of each version
	for i := range clients {
		if v := clients[i].Mortise; v != "" {
			by[v] = append(by[v], clients[i].ID)
		}
	}
	all := slices.Sorted(maps.Keys(by))
	switch len(all) {
	case 0:
		return // nobody publishes
	case 1:
		e.add(Finding{ID: id, Group: GroupClients, Severity: OK, Found: "all clients of mortise that tell have version " + quoted(all[0])})
		return
	}
	few := all[0]
	for _, v := range all {
		if len(by[v]) < len(by[few]) {
			few = v
		}
	}
	f := Finding{
		ID: id, Group: GroupClients, Severity: Info, Found: "the clients of mortise have several versions: " + listed(all) + ". They share locks, but a newer one may do what an older one does not know",
		Do: "Update the older ones; the fewest clients have " + quoted(few) + ".", Command: e.mortise("who " + word(by[few][0])),
	}
	e.add(f.about(by[few]))
}
