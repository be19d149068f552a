package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArmAndPass(t *testing.T) {
	var ended []string
	kill := end
	end = func(name string) { ended = append(ended, name) }
	t.Cleanup(func() { end = kill; armed.Store(nil) })

	At("transfer/after-pay")
	require.Empty(t, ended, "nothing is armed")
	require.NoError(t, Arm("transfer/after-pay:2"))
	At("transfer/after-pay")
	At("transfer/after-ask")
	require.Empty(t, ended)
	At("transfer/after-pay")
	At("transfer/after-pay")
	require.Equal(t, []string{"transfer/after-pay"}, ended, "at the second time, and once")

	for _, bad := range []string{"transfer/nowhere", "transfer/after-pay:0", "transfer/after-pay:x", ":1"} {
		require.Error(t, Arm(bad), bad)
	}
	require.NoError(t, Arm(""))
	require.Nil(t, armed.Load())
}

// Every point in the source is registered, and every registered point stands in the source.
func TestPointsAreThoseInTheSource(t *testing.T) {
	var found []string
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, name := range pointsOf(n) {
				if !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
			return true
		})
		return nil
	}))
	require.ElementsMatch(t, Points, found)
}

// pointsOf are the points of a call of failpoint.At, or of a batcher's options; a name that is not
// written out is none.
func pointsOf(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if len(n.Args) == 1 && isNamed(n.Fun, "failpoint", "At") {
			return []string{literal(n.Args[0])}
		}
	case *ast.CompositeLit:
		index, ok := n.Type.(*ast.IndexExpr)
		if !ok || !isNamed(index.X, "pg", "BatchOptions") {
			return nil
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Name" {
				return []string{literal(kv.Value) + ":before-commit", literal(kv.Value) + ":after-commit"}
			}
		}
	}
	return nil
}

// isNamed reports whether the expression is pkg.name.
func isNamed(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		if name, err := strconv.Unquote(lit.Value); err == nil {
			return name
		}
	}
	return "a name that is not a literal"
}

func BenchmarkAt(b *testing.B) {
	for b.Loop() {
		At("transfer/after-pay")
	}
}
