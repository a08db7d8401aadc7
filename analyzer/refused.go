package analyzer

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

// verdict is whether an acquisition failed if a condition is false, and if it is true.
type verdict map[bool]bool

// tell notes the variables that say whether the acquisition a failed, or is over.
func (c *checker) tell(a *acquisition, g *cfg.CFG) {
	a.told, a.errs = make(map[types.Object]verdict), make(map[types.Object]bool)
	if a.err != nil {
		a.errs[a.err] = true
	}
	for n := 0; n < len(a.errs); { // until nothing is added
		n = len(a.errs)
		eachNode(g, func(b *cfg.Block, i int) { c.tellError(a, b.Nodes[i]) })
	}
	eachNode(g, func(b *cfg.Block, i int) {
		if c.isRelease(b.Nodes[i], a) {
			c.tellReleased(a, b)
		}
	})
	eachNode(g, func(b *cfg.Block, i int) {
		assign, ok := b.Nodes[i].(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return
		}
		for _, left := range assign.Lhs {
			v := c.variable(left)
			if v == nil || !types.Identical(v.Type(), types.Typ[types.Bool]) {
				continue
			}
			if a.told[v] == nil {
				a.told[v] = make(verdict)
			}
			for _, outcome := range [2]bool{false, true} {
				a.told[v][outcome] = a.told[v][outcome] || c.refused(a, assign.Rhs[0], outcome)
			}
		}
	})
}

// tellError notes the errors that n makes of that of the acquisition a.
func (c *checker) tellError(a *acquisition, n ast.Node) {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || n == a.at {
		return
	}
	for _, value := range assign.Rhs {
		if !c.mentionsError(value, a) {
			continue
		}
		for _, left := range assign.Lhs {
			if v := c.variable(left); v != nil && types.Implements(v.Type(), errorType) {
				a.errs[v] = true
			}
		}
	}
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// tellReleased notes the constants that variables get beside the release of the acquisition a, such as released = true.
func (c *checker) tellReleased(a *acquisition, b *cfg.Block) {
	for _, n := range b.Nodes {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
			continue
		}
		v, value := c.variable(assign.Lhs[0]), c.TypesInfo.Types[assign.Rhs[0]].Value
		if v != nil && value != nil && value.Kind() == constant.Bool {
			a.told[v] = verdict{constant.BoolVal(value): true}
		}
	}
}

// held returns the blocks that follow b, without those where the acquisition a has failed.
func (c *checker) held(a *acquisition, b *cfg.Block) (next []*cfg.Block) {
	cond := c.condition(b)
	if cond == nil {
		return b.Succs
	}
	for i, n := range b.Succs {
		if !c.refused(a, cond, i == 0) {
			next = append(next, n)
		}
	}
	return next
}

// condition returns the condition that decides between the two blocks that follow b, the first if it is true; or nil.
func (c *checker) condition(b *cfg.Block) (cond ast.Expr) {
	if len(b.Succs) != 2 {
		return nil
	}
	if len(b.Nodes) > 0 {
		cond, _ = b.Nodes[len(b.Nodes)-1].(ast.Expr)
	}
	switch then := b.Succs[0]; then.Kind {
	case cfg.KindIfThen, cfg.KindForBody:
		return cond
	case cfg.KindSwitchCaseBody:
		clause := then.Stmt.(*ast.CaseClause)
		subject := c.subjects[clause]
		if subject == nil {
			return cond
		}
		if cond == nil { // a type
			cond = clause.List[0]
		}
		return &ast.BinaryExpr{X: subject, Op: token.EQL, Y: cond}
	}
	return nil
}

// heldParts returns the parts of n that may be executed while a is held; the right side of && or || may not be.
func (c *checker) heldParts(a *acquisition, n ast.Node) []ast.Node {
	e, _ := n.(ast.Expr)
	cond, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok || cond.Op != token.LAND && cond.Op != token.LOR {
		return []ast.Node{n}
	}
	parts := c.heldParts(a, cond.X)
	if !c.refused(a, cond.X, cond.Op == token.LAND) {
		parts = append(parts, c.heldParts(a, cond.Y)...)
	}
	return parts
}

// refused reports whether the acquisition a has failed if a condition has that outcome, as far as its form tells. If the condition
// has several parts, one that tells is enough, also where only one of them needs to be true: what may run without the lock is
// not reported.
func (c *checker) refused(a *acquisition, cond ast.Expr, outcome bool) bool {
	equal := false
	switch e := ast.Unparen(cond).(type) {
	case *ast.Ident:
		return a.told[c.variable(e)][outcome]
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return c.refused(a, e.X, !outcome)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			return c.refused(a, e.X, outcome) || c.refused(a, e.Y, outcome)
		case token.EQL, token.NEQ:
			equal = (e.Op == token.EQL) == outcome
			if v := c.comparedWithNil(e); v != nil && (a.errs[v] || v == a.hold) {
				return equal == (v == a.hold)
			}
		}
	}
	return (outcome || equal) && c.mentionsError(cond, a) || !outcome && c.isValid(cond, a)
}

// isValid reports whether e asks the hold of a whether it is valid.
func (c *checker) isValid(e ast.Expr, a *acquisition) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || a.hold == nil {
		return false
	}
	s, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Valid" && c.variable(s.X) == a.hold
}

// comparedWithNil returns the variable that e compares with nil, or nil.
func (c *checker) comparedWithNil(e *ast.BinaryExpr) types.Object {
	switch {
	case c.isNil(e.Y):
		return c.variable(e.X)
	case c.isNil(e.X):
		return c.variable(e.Y)
	}
	return nil
}

func (c *checker) isNil(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return false
	}
	_, ok = c.TypesInfo.Uses[id].(*types.Nil)
	return ok
}

// mentionsError reports whether n mentions the error of a, or what is made of it.
func (c *checker) mentionsError(n ast.Node, a *acquisition) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && a.errs[c.TypesInfo.Uses[id]]
		return !found
	})
	return found
}
