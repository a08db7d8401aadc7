// Package analyzer finds misuses of package mortise that compile: a hold that is dropped, a
// context that does not end with the lock, one that has ended with it, and a lock that is acquired again with
// the outer context.
//
//	go install github.com/mortise-go/mortise/analyzer/cmd/mortisevet@main
//	go vet -vettool=$(which mortisevet) ./...
//
// It is a module of its own, so that mortise does not depend on golang.org/x/tools.
package analyzer

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// Analyzer reports:
//
//   - a call that returns a hold, a term or a member that nothing keeps: nothing can release it. In
//     a test it may be dropped if its error is kept.
//   - a call that returns a lock or another object, and does nothing else, if that is not used.
//   - the use of a context under a lock that was acquired with it, if the context that the lock
//     returned was dropped, or inside the function that Do, TryDo or Lead runs: it does not end
//     when the lock is lost. Code that has the context of the lock, or that of Hold.Context, may watch the other
//     one, to see whether the caller is done. Code that follows a call which gets the hold is not examined: that may release
//     the lock, or end the context with it.
//   - a call of Lock or Do for an exclusive lock inside the function that Do runs, with the context that Do was called
//     with: it waits for itself. TryLock and TryDo do not wait, read sides and permits do not exclude each other.
//   - the use of the context of a hold after its release in the same function: it has ended.
var Analyzer = &analysis.Analyzer{
	Name:     "mortise",
	Doc:      "report holds that are dropped, contexts that do not end with the lock or have ended with it, and locks that wait for themselves",
	URL:      "https://pkg.go.dev/github.com/mortise-go/mortise/analyzer",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      run,
}

const mortisePath = "github.com/mortise-go/mortise"

// releases are the types that stand for something held, and the methods that release it.
var releases = map[string]string{"Hold": "Unlock", "Term": "Resign", "Member": "Leave"}

func run(pass *analysis.Pass) (any, error) {
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	cfgs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	c := &checker{
		pass, make(map[token.Pos]bool), make(map[*ast.CaseClause]ast.Expr), make(map[types.Object]*ast.FuncLit), make(map[types.Object]bool),
		make(map[*ast.FuncLit]bool), make(map[types.Object]bool), make(map[types.Object]bool),
	}
	in.Preorder([]ast.Node{(*ast.AssignStmt)(nil), (*ast.IncDecStmt)(nil), (*ast.ValueSpec)(nil), (*ast.CallExpr)(nil), (*ast.SwitchStmt)(nil), (*ast.TypeSwitchStmt)(nil)}, c.note)
	in.Preorder([]ast.Node{(*ast.ExprStmt)(nil), (*ast.GoStmt)(nil), (*ast.DeferStmt)(nil), (*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)}, c.dropped)
	in.Preorder([]ast.Node{(*ast.ExprStmt)(nil)}, func(n ast.Node) {
		if c.onlyReturns(n.(*ast.ExprStmt).X) {
			c.report(n.Pos(), "nothing is done with what this returns, and it does nothing else")
		}
	})
	in.Preorder([]ast.Node{(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)}, func(n ast.Node) {
		var g *cfg.CFG
		switch n := n.(type) {
		case *ast.FuncDecl:
			g = cfgs.FuncDecl(n)
		case *ast.FuncLit:
			g = cfgs.FuncLit(n)
		}
		if g != nil {
			c.contexts(g)
		}
	})
	in.Preorder([]ast.Node{(*ast.CallExpr)(nil)}, func(n ast.Node) {
		call := n.(*ast.CallExpr)
		if f := c.work(call); f != nil {
			c.unguardedDo(call, f, cfgs.FuncLit(f))
		}
	})
	return nil, nil
}

// checker checks one package.
type checker struct {
	*analysis.Pass
	reported map[token.Pos]bool

	subjects map[*ast.CaseClause]ast.Expr  // what the expressions of a clause are compared with
	literals map[types.Object]*ast.FuncLit // the functions of variables that have no other value
	varies   map[types.Object]bool         // variables that get more than one value
	direct   map[*ast.FuncLit]bool         // the functions that are written as arguments of Do, TryDo or Lead
	owned    map[types.Object]bool         // contexts that have an owner
	endable  map[types.Object]bool         // contexts that were made together with a function, or something else, that may end them
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	if !c.reported[at] {
		c.reported[at] = true
		c.Reportf(at, format, args...)
	}
}

// dropped reports a statement that drops what an acquisition returns.
func (c *checker) dropped(n ast.Node) {
	var call ast.Expr
	drops, kept := true, false // the hold, and the error
	switch n := n.(type) {
	case *ast.ExprStmt:
		call = n.X
	case *ast.GoStmt:
		call = n.Call
	case *ast.DeferStmt:
		call = n.Call
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 && len(n.Lhs) == 3 {
			call, drops, kept = n.Rhs[0], isBlank(n.Lhs[0]), !isBlank(n.Lhs[2])
		}
	case *ast.ValueSpec:
		if len(n.Values) == 1 && len(n.Names) == 3 {
			call, drops, kept = n.Values[0], isBlank(n.Names[0]), !isBlank(n.Names[2])
		}
	}
	if call == nil || !drops || kept && c.inTest(n.Pos()) {
		return
	}
	if what := c.acquires(call); what != "" {
		c.report(n.Pos(), "the %s is dropped: nothing can release the lock with %s", strings.ToLower(what), releases[what])
	}
}

// onlyReturns reports whether e is a call of package mortise that returns an object, and does nothing else: it returns no
// error.
func (c *checker) onlyReturns(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || c.callee(call) != mortisePath {
		return false
	}
	pointer, ok := types.Unalias(c.TypesInfo.TypeOf(call)).(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(pointer.Elem()).(*types.Named)
	return ok && isFrom(named.Obj(), mortisePath)
}

func (c *checker) inTest(at token.Pos) bool {
	return strings.HasSuffix(c.Fset.File(at).Name(), "_test.go")
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// acquires returns which of the types in releases a call returns, with a context and an error;
// an empty text if it returns anything else.
func (c *checker) acquires(e ast.Expr) string {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	results, ok := c.TypesInfo.TypeOf(call).(*types.Tuple)
	if !ok || results.Len() != 3 || !isNamed(results.At(1).Type(), "context", "Context") {
		return ""
	}
	pointer, ok := types.Unalias(results.At(0).Type()).(*types.Pointer)
	if !ok {
		return ""
	}
	for name := range releases {
		if isNamed(pointer.Elem(), mortisePath, name) {
			return name
		}
	}
	return ""
}

func isNamed(t types.Type, path, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && isFrom(named.Obj(), path)
}

// isFrom reports whether an object is from the package with that path, or a vendored copy of it.
func isFrom(o types.Object, path string) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == path || strings.HasSuffix(o.Pkg().Path(), "/vendor/"+path))
}
