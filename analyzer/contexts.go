package analyzer

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

// acquisition is a statement: hold, ctx, err := lock.Lock(given).
type acquisition struct {
	at                    *ast.AssignStmt
	what                  string       // the key in releases
	hold, ctx, err, given types.Object // nil if it is blank, or not a variable
}

// acquisition returns the acquisition that n is, or nil.
func (c *checker) acquisition(n ast.Node) *acquisition {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 || len(assign.Lhs) != 3 {
		return nil
	}
	what := c.acquires(assign.Rhs[0])
	if what == "" {
		return nil
	}
	a := &acquisition{at: assign, what: what, hold: c.variable(assign.Lhs[0]), ctx: c.variable(assign.Lhs[1]), err: c.variable(assign.Lhs[2])}
	if call := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr); len(call.Args) > 0 {
		a.given = c.variable(call.Args[0])
	}
	return a
}

// variable returns the variable that e is, or nil.
func (c *checker) variable(e ast.Expr) types.Object {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok || id.Name == "_" {
		return nil
	}
	v, ok := c.TypesInfo.ObjectOf(id).(*types.Var)
	if !ok {
		return nil
	}
	return v
}

// contexts reports the use of contexts that do not end with a lock, or have ended with it, in
// one function.
func (c *checker) contexts(g *cfg.CFG) {
	var all []*acquisition
	eachNode(g, func(b *cfg.Block, i int) {
		if a := c.acquisition(b.Nodes[i]); a != nil {
			all = append(all, a)
			if isBlank(a.at.Lhs[1]) && a.given != nil && a.hold != nil {
				c.unguarded(a, b, i)
			}
		}
	})
	eachNode(g, func(b *cfg.Block, i int) {
		for _, a := range all {
			if a.ctx != nil && a.hold != nil && c.isRelease(b.Nodes[i], a) {
				c.ended(a, b, i)
			}
		}
	})
}

func eachNode(g *cfg.CFG, f func(b *cfg.Block, i int)) {
	for _, b := range g.Blocks {
		if b.Live {
			for i := range b.Nodes {
				f(b, i)
			}
		}
	}
}

// unguarded reports the use of the context that was given to an acquisition whose own context is
// dropped, up to the release.
func (c *checker) unguarded(a *acquisition, b *cfg.Block, i int) {
	refused, scope := c.refusals(a), a.hold.Parent()
	walk(b, i+1, func(n ast.Node) (on bool) {
		if c.isRelease(n, a) || n == a.at || !scope.Contains(n.Pos()) {
			return false
		}
		for _, region := range refused {
			if region.Pos() <= n.Pos() && n.Pos() < region.End() {
				return false
			}
		}
		if id := c.use(n, a.given, true); id != nil {
			c.report(id.Pos(), "%s does not end when the lock is lost; the context that does was dropped in line %d", id.Name, c.line(a.at.Pos()))
			return false
		}
		return !c.assigns(n, a.given)
	})
}

// work returns the function that a call of Do or TryDo runs under a lock, if the context that was given to it is a variable;
// else nil. The Do of a Semaphore does not count: it has three arguments, and passes on the context that it
// gets, because no permit is ever lost.
func (c *checker) work(call *ast.CallExpr) *ast.FuncLit {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Do" && s.Sel.Name != "TryDo" || len(call.Args) != 2 || c.callee(call) != mortisePath || c.variable(call.Args[0]) == nil {
		return nil
	}
	f, _ := ast.Unparen(call.Args[1]).(*ast.FuncLit)
	return f
}

// unguardedDo reports the use of the context that was given to Do in the function f that it runs. If that has a context with a
// name, it may look at the other one to see whether the caller is done.
func (c *checker) unguardedDo(call *ast.CallExpr, f *ast.FuncLit, g *cfg.CFG) {
	given, lock := c.variable(call.Args[0]), call.Fun.(*ast.SelectorExpr).X
	var own types.Object
	parameter := fmt.Sprintf("the parameter of the function in line %d, which has no name", c.line(f.Pos()))
	if names := f.Type.Params.List[0].Names; len(names) > 0 && !isBlank(names[0]) {
		own, parameter = c.TypesInfo.Defs[names[0]], names[0].Name
	}
	walk(g.Blocks[0], 0, func(n ast.Node) (on bool) {
		if at := c.again(n, lock, given); at != nil {
			c.report(at.Pos(), "%s waits for the lock that is held here, unless it has an owner; the context that re-enters is %s", given.Name(), parameter)
			return false
		}
		if id := c.use(n, given, true); id != nil && (own == nil || !c.watches(n, given)) {
			c.report(id.Pos(), "%s does not end when the lock is lost; the context that does is %s", id.Name, parameter)
			return false
		}
		return !c.assigns(n, given)
	})
}

// again returns the first call in n that acquires a lock, which is written as it is there, with the context given, or nil.
func (c *checker) again(n ast.Node, lock ast.Expr, given types.Object) (found *ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found != nil || len(call.Args) == 0 || c.variable(call.Args[0]) != given || c.callee(call) != mortisePath {
			return found == nil
		}
		s := call.Fun.(*ast.SelectorExpr)
		if acquiring[s.Sel.Name] && types.ExprString(s.X) == types.ExprString(lock) && c.sameObject(s.X, lock) {
			found = call
		}
		return found == nil
	})
	return found
}

// acquiring are the methods that acquire a lock.
var acquiring = map[string]bool{"Lock": true, "TryLock": true, "Do": true, "TryDo": true, "Acquire": true, "TryAcquire": true}

// sameObject reports whether two expressions of the same text begin with the same variable.
func (c *checker) sameObject(a, b ast.Expr) bool {
	first := func(e ast.Expr) (o types.Object) {
		ast.Inspect(e, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && o == nil {
				o = c.TypesInfo.Uses[id]
			}
			return o == nil
		})
		return o
	}
	return first(a) == first(b)
}

// watches reports whether n uses the context v only to see whether it has ended.
func (c *checker) watches(n ast.Node, v types.Object) bool {
	only := true
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if ok && (c.variable(s.X) == v && s.Sel.Name == "Done" || c.callee(n) == "context" && s.Sel.Name == "AfterFunc") {
				return false
			}
			if c.isIndifferent(n, v) || c.callee(n) == mortisePath {
				return false
			}
		case *ast.Ident:
			only = only && c.TypesInfo.Uses[n] != v
		}
		return only
	})
	return only
}

// ended reports the use of the context of a hold after its release, which is node i of b.
func (c *checker) ended(a *acquisition, b *cfg.Block, i int) {
	line := c.line(b.Nodes[i].Pos())
	walk(b, i+1, func(n ast.Node) (on bool) {
		if id := c.use(n, a.ctx, false); id != nil {
			c.report(id.Pos(), "%s has ended: its %s was released by %s in line %d", id.Name, lower(a.what), releases[a.what], line)
			return false
		}
		return !c.assigns(n, a.ctx)
	})
}

func lower(what string) string { return string(what[0]+'a'-'A') + what[1:] }

func (c *checker) line(at token.Pos) int { return c.Fset.Position(at).Line }

// walk calls visit with the nodes that may be executed from node i of b on. It does not go on
// behind one for which visit returns false.
func walk(b *cfg.Block, i int, visit func(n ast.Node) (on bool)) {
	seen := make(map[*cfg.Block]bool)
	var from func(b *cfg.Block, i int)
	from = func(b *cfg.Block, i int) {
		for _, n := range b.Nodes[i:] {
			if !visit(n) {
				return
			}
		}
		for _, next := range b.Succs {
			if !seen[next] {
				seen[next] = true
				from(next, 0)
			}
		}
	}
	from(b, i)
}

// refusals returns the branches of the if statements that look at the error of an acquisition
// and find one: there the lock is not held.
func (c *checker) refusals(a *acquisition) (regions []ast.Node) {
	if a.err == nil {
		return nil
	}
	for _, file := range c.Files {
		if file.FileStart <= a.at.Pos() && a.at.Pos() < file.FileEnd {
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.IfStmt); ok && s.Cond.Pos() > a.at.Pos() && c.mentions(s.Cond, a.err) {
					regions = append(regions, refused(s))
				}
				return true
			})
		}
	}
	return regions
}

// refused returns the branch of an if statement on an error where there is one, as far as the
// form of the condition tells.
func refused(s *ast.IfStmt) ast.Node {
	if cond, ok := s.Cond.(*ast.BinaryExpr); ok && cond.Op == token.EQL && s.Else != nil {
		return s.Else
	} else if ok && cond.Op == token.EQL {
		return &ast.BadStmt{} // an empty region
	}
	return s.Body
}

func (c *checker) mentions(n ast.Node, v types.Object) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && c.TypesInfo.Uses[id] == v
		return !found
	})
	return found
}

// isRelease reports whether n releases the hold of a at once: not later, as a deferred call
// does, and not in another function.
func (c *checker) isRelease(n ast.Node, a *acquisition) (is bool) {
	if a.hold == nil {
		return false
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == releases[a.what] && c.variable(s.X) == a.hold {
				is = true
			}
		}
		return !is
	})
	return is
}

// assigns reports whether n assigns something else to v.
func (c *checker) assigns(n ast.Node, v types.Object) bool {
	assign, ok := n.(*ast.AssignStmt)
	if !ok {
		return false
	}
	for _, left := range assign.Lhs {
		if c.variable(left) == v {
			return true
		}
	}
	return false
}

// use returns the first use of the context v in n that depends on when it ends, or nil. Calls of
// package mortise do not count if exceptCalls is true: they acquire or examine other locks.
func (c *checker) use(n ast.Node, v types.Object, exceptCalls bool) (found *ast.Ident) {
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if c.isIndifferent(n, v) || exceptCalls && c.callee(n) == mortisePath {
				return false
			}
		case *ast.Ident:
			if found == nil && c.TypesInfo.Uses[n] == v {
				found = n
			}
		}
		return found == nil
	}
	if assign, ok := n.(*ast.AssignStmt); ok { // to v is no use
		for _, right := range assign.Rhs {
			ast.Inspect(right, look)
		}
		return found
	}
	ast.Inspect(n, look)
	return found
}

// isIndifferent reports whether a call does the same with a context that has ended: it asks why it
// has ended, or for a value, or makes a context of it that does not end.
func (c *checker) isIndifferent(call *ast.CallExpr, v types.Object) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := s.Sel.Name
	if c.variable(s.X) == v {
		return name == "Err" || name == "Value" || name == "Deadline"
	}
	switch c.callee(call) {
	case "context":
		return name == "Cause" || name == "WithoutCancel"
	case "log/slog":
		return true
	case mortisePath:
		return name == "HoldFrom"
	}
	return false
}

// callee returns the path of the package whose function or method is called.
func (c *checker) callee(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if f, ok := c.TypesInfo.Uses[s.Sel].(*types.Func); ok && f.Pkg() != nil {
			return f.Pkg().Path()
		}
	}
	return ""
}
