package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Nothing that the gate runs judges how late an event is, or waits for a time instead of an event: on a busy
// machine every time is exceeded. In virtual time both are exact. What is said of real time is shown by make
// proof, beside a canary.
func TestGateJudgesNoRealTime(t *testing.T) {
	t.Chdir("../..")
	seen := make(map[string]bool)
	for _, p := range packagesOfTheGate(t) {
		for _, found := range realTime(t, p) {
			if !seen[found] {
				t.Errorf("%s\n\tawait an event, or move the test to make proof (build tag proof) and judge it with internal/canary", found)
			}
			seen[found] = true
		}
	}
}

// realTime returns the places in a package that sleep, or compare a time that has passed, and that what the gate
// runs reaches outside of a bubble of testing/synctest. What mortise itself does is tested in virtual time.
func realTime(t *testing.T, j judged) (found []string) {
	t.Helper()
	p := parsePackage(t, j.dir, j.tags)
	for f := range p.reached(func(f *ast.FuncDecl) bool {
		if j.kit {
			return j.runs(f.Name.Name)
		}
		return f.Recv == nil && isTest(f.Name.Name) && p.ofTest(f) && j.runs(f.Name.Name)
	}) {
		if j.kit || p.ofTest(f) {
			found = append(found, p.judged(f)...)
		}
	}
	if slices.Contains(j.tags, "interop") { // the trials of its core run without a canary, which no syntax shows
		found = slices.DeleteFunc(found, func(at string) bool { return strings.HasSuffix(at, "canary.Judge") })
	}
	slices.Sort(found)
	return found
}

// mention is what has been named so far: functions and types, and, behind a dot, methods.
type mention struct{ named, selected map[string]bool }

func (m mention) has(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return m.named[f.Name.Name]
	}
	return m.selected[f.Name.Name] && m.named[receiver(f)]
}

func (m mention) add(f *ast.FuncDecl) {
	if f.Recv == nil {
		m.named[f.Name.Name] = true
		return
	}
	m.selected[f.Name.Name], m.named[receiver(f)] = true, true
}

// reached returns the functions and methods that the roots reach outside of virtual time. Functions are followed by
// name within the package, methods if their type is named as well.
func (p *parsed) reached(root func(*ast.FuncDecl) bool) map[*ast.FuncDecl]bool {
	all, seen := slices.Concat(slices.Collect(maps.Values(p.funcs))...), map[*ast.FuncDecl]bool{}
	m := mention{map[string]bool{}, map[string]bool{}}
	for _, f := range all {
		if root(f) {
			m.add(f)
		}
	}
	for before := -1; before < len(seen); {
		before = len(seen)
		for _, f := range all {
			if seen[f] || f.Body == nil || !m.has(f) {
				continue
			}
			seen[f] = true
			behind := map[*ast.Ident]bool{}
			p.inspect(f.Body, func(n ast.Node) {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					m.selected[n.Sel.Name], behind[n.Sel] = true, true
				case *ast.Ident:
					m.named[n.Name] = m.named[n.Name] || !behind[n]
				}
			})
		}
	}
	return seen
}

// receiver returns the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) (name string) {
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}

// parsed is a package: its functions and methods by name.
type parsed struct {
	set   *token.FileSet
	funcs map[string][]*ast.FuncDecl
	alias map[string]string // variables that are functions of internal/locktest
	shown *parsed           // internal/locktest, for every other package

	bubble map[string]bool // functions that run what they are given in virtual time
	long   map[string]bool // constants of a minute or more
}

func parsePackage(t *testing.T, dir string, tags []string) *parsed {
	t.Helper()
	context := build.Default
	context.BuildTags = tags
	p := &parsed{set: token.NewFileSet(), funcs: map[string][]*ast.FuncDecl{}, alias: map[string]string{}, bubble: map[string]bool{}, long: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	for _, file := range files {
		if match, err := context.MatchFile(dir, filepath.Base(file)); err != nil {
			t.Fatal(err)
		} else if !match {
			continue
		}
		syntax, err := parser.ParseFile(p.set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				p.funcs[d.Name.Name] = append(p.funcs[d.Name.Name], d)
			case *ast.GenDecl:
				p.aliases(d)
			}
		}
	}
	if kit := filepath.Join("internal", "locktest"); !strings.HasSuffix(dir, kit) {
		p.shown = parsePackage(t, kit, nil)
	}
	p.findBubbles()
	return p
}

// aliases notes the variables whose value is a function of internal/locktest, and the long constants.
func (p *parsed) aliases(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
			p.long[v.Names[0].Name] = p.aMinute(v.Values[0])
			if f, ok := v.Values[0].(*ast.SelectorExpr); ok && isPackage(f.X, "locktest") {
				p.alias[v.Names[0].Name] = f.Sel.Name
			}
		}
	}
}

func (p *parsed) ofTest(n ast.Node) bool {
	return strings.HasSuffix(p.set.Position(n.Pos()).Filename, "_test.go")
}

// bubbles reports whether what is called runs what it is given in virtual time.
func (p *parsed) bubbles(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return isPackage(f.X, "synctest") && f.Sel.Name == "Test" || isPackage(f.X, "locktest") && p.shown != nil && p.shown.bubble[f.Sel.Name]
	case *ast.Ident:
		return p.bubble[f.Name] || p.shown != nil && p.shown.bubble[p.alias[f.Name]]
	}
	return false
}

// findBubbles notes the functions that run what they are given in virtual time: those that begin a bubble, and those
// that take a function and call one of them.
func (p *parsed) findBubbles() {
	for before := -1; before < len(p.bubble); {
		before = len(p.bubble)
		found := maps.Clone(p.bubble)
		for name, fs := range p.funcs {
			for _, d := range fs {
				if d.Recv == nil && d.Body != nil && (before == 0 || takesFunc(d)) && p.callsBubble(d) {
					found[name] = true
				}
			}
		}
		p.bubble = found
	}
}

func takesFunc(d *ast.FuncDecl) bool {
	return slices.ContainsFunc(d.Type.Params.List, func(f *ast.Field) bool { _, ok := f.Type.(*ast.FuncType); return ok })
}

func (p *parsed) callsBubble(d *ast.FuncDecl) (is bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			is = is || p.bubbles(call)
		}
		return !is
	})
	return is
}

// inspect calls f for each node of a function that is outside of virtual time: no argument of what runs functions in
// a bubble, and, where there is a bubble, no table of cases.
func (p *parsed) inspect(body *ast.BlockStmt, f func(ast.Node)) {
	virtual := map[ast.Node]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && p.bubbles(call) {
			virtual[call] = true
		}
		return true
	})
	if len(virtual) > 0 {
		ast.Inspect(body, func(n ast.Node) bool {
			_, table := n.(*ast.CompositeLit)
			virtual[n] = virtual[n] || table
			return true
		})
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if _, of := n.(*ast.FuncType); of || virtual[n] { // to take a type is not to make one
			return false
		}
		if n != nil {
			f(n)
		}
		return true
	})
}

// judged returns the places of a function where real time is judged.
func (p *parsed) judged(f *ast.FuncDecl) (found []string) {
	passed := map[string]bool{} // variables that have a time that has passed
	p.inspect(f.Body, func(n ast.Node) {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, right := range a.Rhs {
				if id, ok := a.Lhs[i].(*ast.Ident); ok && measures(right, nil) {
					passed[id.Name] = true
				}
			}
		}
	})
	p.inspect(f.Body, func(n ast.Node) {
		what := ""
		switch n := n.(type) {
		case *ast.CallExpr:
			what = p.waits(n)
		case *ast.BinaryExpr:
			if compares(n.Op) && (measures(n.X, passed) && !p.aMinute(n.Y) || measures(n.Y, passed) && !p.aMinute(n.X)) {
				what = "a time that has passed is compared"
			}
		}
		if what != "" {
			found = append(found, fmt.Sprintf("%s: %s: %s", p.set.Position(n.Pos()), f.Name.Name, what))
		}
	})
	return found
}

// waits returns what is called if that lets time pass, is an alarm that comes too soon for a missing event, asks
// whether a time has come, or judges a bound.
func (p *parsed) waits(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case !ok:
	case isPackage(s.X, "time") && s.Sel.Name == "Sleep",
		isPackage(s.X, "time") && (s.Sel.Name == "After" || s.Sel.Name == "NewTimer") && !p.aMinute(call.Args[0]),
		isPackage(s.X, "canary") && s.Sel.Name == "Judge":
		return s.X.(*ast.Ident).Name + "." + s.Sel.Name
	case (s.Sel.Name == "After" || s.Sel.Name == "Before") && isNow(s.X):
		return "the time is compared"
	}
	return ""
}

// isNow reports whether e is time.Now().
func isNow(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && isPackage(s.X, "time") && s.Sel.Name == "Now"
}

func compares(op token.Token) bool {
	return op == token.LSS || op == token.GTR || op == token.LEQ || op == token.GEQ
}

// measures reports whether e has a time that has passed: time.Since, Sub of a time, or one of the variables.
func measures(e ast.Expr, passed map[string]bool) (does bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			does = does || n.Sel.Name == "Since" || n.Sel.Name == "Sub"
		case *ast.Ident:
			does = does || passed[n.Name]
		}
		return true
	})
	return does
}

func isPackage(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// aMinute reports whether e is so long that nothing but a missing event can take it.
func (p *parsed) aMinute(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			is = is || isPackage(n.X, "time") && (n.Sel.Name == "Minute" || n.Sel.Name == "Hour")
		case *ast.Ident:
			is = is || p.long[n.Name]
		}
		return true
	})
	return is
}
