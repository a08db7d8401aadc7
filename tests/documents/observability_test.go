package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The page on observability names everything that the library tells: each event and each way to acquire a lock, each
// exported field, each attribute of a log line, each label, metric, attribute and span.
func TestObservabilityNamesEverything(t *testing.T) {
	atRoot(t)
	page := read(t, "docs/observability.md")
	quoted := make(map[string]bool)
	for _, code := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		for _, word := range regexp.MustCompile(`[\w.]+`).FindAllString(code[1], -1) {
			quoted[word] = true
			for part := range strings.SplitSeq(word, ".") {
				quoted[part] = true
			}
		}
	}
	want := func(where string, least int, names []string) {
		t.Helper()
		if len(names) < least {
			t.Errorf("%s: %d names, want %d at least: is it read right?", where, len(names), least)
		}
		for _, name := range names {
			if !quoted[name] {
				t.Errorf("docs/observability.md does not name %s of %s", name, where)
			}
		}
	}
	want("EventType", 13, constants(t, "observer.go", "EventType"))
	want("How", 4, constants(t, "observer.go", "How"))
	want("LostReason", 4, constants(t, "errors.go", "LostReason"))
	want("Event", 17, fields(t, "observer.go", "Event"))
	want("Stats", 13, fields(t, "stats.go", "Stats"))
	want("Identity", 5, fields(t, "clients.go", "Identity"))
	want("Acquisition", 11, fields(t, "history.go", "Acquisition"))
	want("Queue", 2, []string{"Waiters", "Listeners"})
	want("ClientState", 3, []string{"Holds", "Waits", "Asked"})
	want("RevokedError", 2, fields(t, "ask.go", "RevokedError"))
	want("logger.go", 14, matches(t, `\b(?:text|span|slog\.\w+)\("(\w+)"`, "logger.go"))
	want("the labels of goroutines", 2, matches(t, `"(mortise_\w+)"`, "internal/lease/call.go"))
	want("mortiseprom", 11, matches(t, `"(dlock_\w+)"`, "mortiseprom/collector.go"))
	want("mortiseotel", 20, matches(t, `"((?:dlock|error)\.[\w.]+)"`, "mortiseotel/*.go"))
	want("the options of mortiseotel", 2, []string{"WithLockName", "WithHoldSpans"})
}

// The tables of events have the fields that exist, and the levels and the texts of the log.
func TestObservabilityTellsLevelsAndTexts(t *testing.T) {
	atRoot(t)
	page := read(t, "docs/observability.md")
	_, logs, _ := strings.Cut(page, "\n## Logs\n")
	logs, _, _ = strings.Cut(logs, "\n## ")
	names := constantNames(t, "observer.go", "EventType")
	code := read(t, "logger.go")
	for name, value := range names {
		level := regexp.MustCompile(name + `:\s+slog\.Level(\w+)`).FindStringSubmatch(code)
		text := regexp.MustCompile(name + `:\s+"([^"]+)"`).FindStringSubmatch(code)
		if level == nil || text == nil {
			t.Errorf("logger.go has no level and text of %s", name)
			continue
		}
		if row := "| `" + value + "` | " + strings.ToLower(level[1]) + " | " + text[1] + " |"; !strings.Contains(logs, row) {
			t.Errorf("docs/observability.md has no row %s", row)
		}
	}
}

// matches returns what the first group of a pattern matches in files.
func matches(t *testing.T, pattern string, files ...string) (list []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, files...), -1) {
		list = append(list, m[1])
	}
	return list
}

// fields returns the names of the exported fields of a struct.
func fields(t *testing.T, file, name string) (list []string) {
	t.Helper()
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range f.Names {
				if id.IsExported() {
					list = append(list, id.Name)
				}
			}
		}
		return false
	})
	return list
}

// constants returns the values of the constants of a type, which are texts.
func constants(t *testing.T, file, of string) (list []string) {
	t.Helper()
	for _, value := range constantNames(t, file, of) {
		list = append(list, value)
	}
	return list
}

// constantNames returns the names of the constants of a type, with their values.
func constantNames(t *testing.T, file, of string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == of {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = value
		}
		return true
	})
	return found
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
