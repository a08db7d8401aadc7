package analyzer

import (
	"go/ast"
	"go/types"
	"slices"
)

// exclusive are the kinds of lock that an owner cannot acquire while another one holds it. A MultiLock may consist of others.
var exclusive = map[string]bool{
	"Lock": true, "FairLock": true, "SpinLock": true, "FencedLock": true, "WriteLock": true, "GroupLock": true, "Redlock": true,
}

func (c *checker) isExclusive(lock ast.Expr) bool {
	pointer, ok := types.Unalias(c.TypesInfo.TypeOf(lock)).(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(pointer.Elem()).(*types.Named)
	return ok && isFrom(named.Obj(), mortisePath) && exclusive[named.Obj().Name()]
}

// again returns the first call in n that waits for a lock with the context given, or nil. One that TryLock or TryDo
// makes does not wait, and one in another function may wait until the lock is free.
func (c *checker) again(n ast.Node, lock ast.Expr, given types.Object) (found *ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return false
		case *ast.FuncLit:
			return c.direct[n]
		case *ast.CallExpr:
			if found != nil || len(n.Args) == 0 || c.variable(n.Args[0]) != given || c.callee(n) != mortisePath {
				break
			}
			s := n.Fun.(*ast.SelectorExpr)
			if (s.Sel.Name == "Lock" || s.Sel.Name == "Do") && c.isSame(s.X, lock) {
				found = n
			}
		}
		return found == nil
	})
	return found
}

// isSame reports whether two expressions are the same lock: they are written in the same way, with the same variables that have
// one value only, and call nothing else that might return another one.
func (c *checker) isSame(a, b ast.Expr) bool {
	objects := func(e ast.Expr) (all []types.Object, pure bool) {
		pure = true
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				pure = pure && c.callee(n) == mortisePath
			case *ast.Ident:
				all = append(all, c.TypesInfo.Uses[n])
				pure = pure && !c.varies[c.TypesInfo.Uses[n]]
			}
			return true
		})
		return all, pure
	}
	x, pure := objects(a)
	y, _ := objects(b)
	return pure && slices.Equal(x, y) && types.ExprString(a) == types.ExprString(b)
}
