package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// hosting is how a mutant stands in the program beside the code as it is, so that one binary holds
// all of them and is told when it starts which one it is to have.
type hosting string

const (
	// none: it is compiled by itself, as the size of an array or a constant number
	alone hosting = ""
	// a condition, of which one form is evaluated
	condition hosting = "condition"
	// a value of which both forms are evaluated, and do nothing else
	value hosting = "value"
	// a literal of SQL
	literal hosting = "literal"
)

// host is the smallest part of the source that can be chosen while the program runs.
type host struct {
	hosting
	from, to int
}

// asks are methods whose result is a condition.
var asks = []string{"Before", "After", "IsPositive", "IsNegative"}

// host finds the host of a change in what is being visited.
func (f *finder) host(from, to token.Pos) host {
	inConst := f.function == "const" || slices.ContainsFunc(f.around, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		return ok && d.Tok == token.CONST
	})
	for i := len(f.around) - 1; i >= 0; i-- {
		n := f.around[i]
		if branch, ok := n.(*ast.IfStmt); ok && branch.Cond.Pos() == from && branch.Cond.End() == to {
			return f.hostAt(condition, branch.Cond)
		}
		if n.Pos() > from || n.End() < to {
			continue
		}
		switch n := n.(type) {
		case *ast.BasicLit:
			return f.hostAt(literal, n)
		case *ast.BinaryExpr:
			if !inConst && (operators[n.Op] != nil || n.Op == token.LAND || n.Op == token.LOR) {
				return f.hostAt(condition, n)
			}
		case *ast.UnaryExpr:
			if !inConst && n.Op == token.NOT {
				return f.hostAt(condition, n)
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(asks, called.Sel.Name) {
				return f.hostAt(condition, n)
			}
		case *ast.FuncLit, ast.Stmt, ast.Decl:
			return f.valueHost(inConst)
		}
	}
	return f.valueHost(inConst)
}

// valueHost is the host of a sum or a name that stands in no condition.
func (f *finder) valueHost(inConst bool) host {
	n := f.around[len(f.around)-1]
	if sum, ok := n.(*ast.BinaryExpr); ok && (sum.Op == token.ADD || sum.Op == token.SUB) && !inConst && isPure(n) {
		return f.hostAt(value, n)
	}
	name, ok := n.(*ast.Ident)
	if selector, isSelector := n.(*ast.SelectorExpr); isSelector {
		name, ok = selector.Sel, true
	}
	if !ok || inConst || len(f.around) < 2 {
		return host{}
	}
	if name.Name != "Add" && name.Name != "Sub" {
		return f.hostAt(value, n)
	}
	if call, ok := f.around[len(f.around)-2].(*ast.CallExpr); ok && call.Fun == n && isPure(call) {
		if _, ok := f.around[len(f.around)-3].(*ast.ExprStmt); !ok {
			return f.hostAt(value, call)
		}
	}
	return host{}
}

func (f *finder) hostAt(h hosting, n ast.Node) host {
	return host{h, f.fset.Position(n.Pos()).Offset, f.fset.Position(n.End()).Offset}
}

// isPure reports whether an expression can be evaluated once more without a trace.
func isPure(n ast.Node) bool {
	pure := true
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called := call.Fun.(type) {
		case *ast.Ident:
			pure = pure && slices.Contains([]string{"len", "cap", "min", "max", "int", "int64", "float64", "string"}, called.Name)
		case *ast.SelectorExpr:
			pure = pure && slices.Contains([]string{"Add", "Sub", "Mul", "Neg", "Duration", "Truncate", "Abs", "UTC", "Unix"}, called.Sel.Name)
		default:
			pure = false
		}
		return pure
	})
	return pure
}
