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
	what                  string                   // the key in releases
	hold, ctx, err, given types.Object             // nil if it is blank, or not a variable
	told                  map[types.Object]verdict // of variables
	errs                  map[types.Object]bool    // err, and what is made of it
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
				c.unguarded(a, g, b, i)
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
func (c *checker) unguarded(a *acquisition, g *cfg.CFG, b *cfg.Block, i int) {
	knows, scope := c.asks(g, a.hold), a.hold.Parent()
	if knows && c.endable[a.given] {
		return // the end of the hold may end it
	}
	c.tell(a, g)
	walk(b, i+1, func(n ast.Node) (on bool) {
		if c.isRelease(n, a) || n == a.at || !scope.Contains(n.Pos()) || c.passesOn(n, a.hold) {
			return false
		}
		for _, part := range c.heldParts(a, n) {
			if id := c.useFor(part, a.given, knows); id != nil {
				c.report(id.Pos(), "%s does not end when the lock is lost; the context that does was dropped in line %d", id.Name, c.line(a.at.Pos()))
				return false
			}
		}
		return !c.assigns(n, a.given)
	}, func(b *cfg.Block) []*cfg.Block { return c.held(a, b) })
}

// asks reports whether a function asks a hold for its context.
func (c *checker) asks(g *cfg.CFG, hold types.Object) (does bool) {
	eachNode(g, func(b *cfg.Block, i int) {
		ast.Inspect(b.Nodes[i], func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			does = does || ok && s.Sel.Name == "Context" && c.variable(s.X) == hold
			return !does
		})
	})
	return does
}

// passesOn reports whether n passes a hold on to others, who may release it or watch it. A deferred call does so later, and
// a caller gets it with the context that is returned.
func (c *checker) passesOn(n ast.Node, hold types.Object) (does bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt:
			return false
		case *ast.SelectorExpr: // a method
			return c.variable(n.X) != hold
		case *ast.BinaryExpr: // compared with nil
			return c.variable(n.X) != hold && c.variable(n.Y) != hold
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				does = does || c.variable(result) != hold && c.passesOn(result, hold)
			}
			return false
		case *ast.Ident:
			does = does || c.TypesInfo.Uses[n] == hold
		}
		return !does
	})
	return does
}

// work returns the function that a call of Do, TryDo or Lead runs under a lock, or nil if it is not known. The Do of a
// Semaphore does not count: it has three arguments, and passes on the context that it gets, because no permit is ever
// lost.
func (c *checker) work(call *ast.CallExpr) *ast.FuncLit {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || c.callee(call) != mortisePath || runs[s.Sel.Name] == 0 || len(call.Args) != runs[s.Sel.Name] {
		return nil
	}
	last := ast.Unparen(call.Args[len(call.Args)-1])
	if f, ok := last.(*ast.FuncLit); ok {
		return f
	}
	return c.literals[c.variable(last)]
}

// runs are the methods that run a function under a lock, and how many arguments they have.
var runs = map[string]int{"Do": 2, "TryDo": 2, "Lead": 3}

// parameter returns the context that work gets, or nil if that has no name.
func (c *checker) parameter(f *ast.FuncLit) types.Object {
	if names := f.Type.Params.List[0].Names; len(names) > 0 {
		return c.variable(names[0])
	}
	return nil
}

// unguardedDo reports the use of the context that was given to Do in the function f that it runs. If that has a context with a
// name, it may look at the other one to see whether the caller is done.
func (c *checker) unguardedDo(call *ast.CallExpr, f *ast.FuncLit, g *cfg.CFG) {
	given, lock := c.variable(call.Args[0]), call.Fun.(*ast.SelectorExpr).X
	if given == nil {
		return
	}
	own := c.parameter(f)
	parameter := fmt.Sprintf("the parameter of the function in line %d, which has no name", c.line(f.Pos()))
	if own != nil {
		parameter = own.Name()
	}
	waits := c.isExclusive(lock) && !c.owned[given]
	walk(g.Blocks[0], 0, func(n ast.Node) (on bool) {
		if at := c.again(n, lock, given); waits && at != nil {
			c.report(at.Pos(), "%s waits for the lock that is held here, unless it has an owner; the context that re-enters is %s", given.Name(), parameter)
			return false
		}
		if id := c.useFor(n, given, own != nil); id != nil {
			c.report(id.Pos(), "%s does not end when the lock is lost; the context that does is %s", id.Name, parameter)
			return false
		}
		return !c.assigns(n, given)
	}, everything)
}

// useFor returns the first use in n of a context that does not end with the lock, or nil. Who knows the one that does may
// watch it.
func (c *checker) useFor(n ast.Node, given types.Object, knows bool) *ast.Ident {
	if knows && c.watches(n, given) {
		return nil
	}
	return c.use(n, given, true)
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
	}, everything)
}

func lower(what string) string { return string(what[0]+'a'-'A') + what[1:] }

func (c *checker) line(at token.Pos) int { return c.Fset.Position(at).Line }

// walk calls visit with the nodes that may be executed from node i of b on. It does not go on
// behind one for which visit returns false, and goes from block to block as next tells.
func walk(b *cfg.Block, i int, visit func(n ast.Node) (on bool), next func(b *cfg.Block) []*cfg.Block) {
	seen := make(map[*cfg.Block]bool)
	var from func(b *cfg.Block, i int)
	from = func(b *cfg.Block, i int) {
		for _, n := range b.Nodes[i:] {
			if !visit(n) {
				return
			}
		}
		for _, b := range next(b) {
			if !seen[b] {
				seen[b] = true
				from(b, 0)
			}
		}
	}
	from(b, i)
}

func everything(b *cfg.Block) []*cfg.Block { return b.Succs }

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
