package analyzer

import (
	"go/ast"
	"go/token"
)

// note notes what other parts of a function must know of a node.
func (c *checker) note(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			c.noteChanges(n.Lhs...)
		}
		if n.Tok == token.ASSIGN || n.Tok == token.DEFINE {
			c.noteValues(n.Lhs, n.Rhs)
		}
	case *ast.IncDecStmt:
		c.noteChanges(n.X)
	case *ast.ValueSpec:
		var names []ast.Expr
		for _, name := range n.Names {
			names = append(names, name)
		}
		c.noteValues(names, n.Values)
	case *ast.CallExpr:
		if f := c.work(n); f != nil {
			c.direct[f] = ast.Unparen(n.Args[len(n.Args)-1]) == f
			if ctx := c.parameter(f); ctx != nil {
				c.owned[ctx] = true
			}
		}
	case *ast.SwitchStmt:
		c.noteSubject(n.Body, n.Tag)
	case *ast.TypeSwitchStmt:
		ast.Inspect(n.Assign, func(x ast.Node) bool {
			if assert, ok := x.(*ast.TypeAssertExpr); ok && assert.Type == nil {
				c.noteSubject(n.Body, assert.X)
			}
			return true
		})
	}
}

func (c *checker) noteSubject(body *ast.BlockStmt, subject ast.Expr) {
	for _, clause := range body.List {
		c.subjects[clause.(*ast.CaseClause)] = subject
	}
}

// noteChanges notes that variables get another value.
func (c *checker) noteChanges(to ...ast.Expr) {
	for _, e := range to {
		if v := c.variable(e); v != nil {
			c.varies[v] = true
		}
	}
}

// noteValues notes what variables get.
func (c *checker) noteValues(to, values []ast.Expr) {
	for i, e := range to {
		v := c.variable(e)
		if v == nil || len(values) == 0 {
			continue
		}
		var value ast.Expr
		if len(values) == len(to) {
			value = ast.Unparen(values[i])
		}
		f, _ := value.(*ast.FuncLit)
		if _, twice := c.literals[v]; twice {
			f, c.varies[v] = nil, true
		}
		c.literals[v] = f
		if isNamed(v.Type(), "context", "Context") {
			call, ok := ast.Unparen(values[min(i, len(values)-1)]).(*ast.CallExpr)
			c.owned[v] = c.owned[v] || ok && c.hasOwner(call)
			c.endable[v] = c.endable[v] || len(to) == 2 && len(values) == 1
		}
	}
}

// hasOwner reports whether the context that a call returns has an owner.
func (c *checker) hasOwner(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case c.acquires(call) != "":
		return true
	case !ok:
		return false
	case c.callee(call) == mortisePath:
		return s.Sel.Name == "WithOwner" || s.Sel.Name == "Context"
	case c.callee(call) == "context" && len(call.Args) > 0:
		return c.owned[c.variable(call.Args[0])]
	}
	return false
}
