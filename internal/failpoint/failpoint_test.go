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
			if name, ok := pointOf(n); ok && !slices.Contains(found, name) {
				found = append(found, name)
			}
			return true
		})
		return nil
	}))
	require.ElementsMatch(t, Points, found)
}

// pointOf is the name in a call of failpoint.At; a name that is not written out has none.
func pointOf(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fn.Sel.Name != "At" {
		return "", false
	}
	if pkg, ok := fn.X.(*ast.Ident); !ok || pkg.Name != "failpoint" {
		return "", false
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "a name that is not a literal", true
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

func BenchmarkAt(b *testing.B) {
	for b.Loop() {
		At("transfer/after-pay")
	}
}
