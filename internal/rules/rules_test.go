package rules

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
)

// pkg is what `go list` says of a package of this module.
type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
	// TestGoFiles and XTestGoFiles are the tests, inside the package and beside it.
	TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports", "ajo/...").Output()
	require.NoError(t, err)
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
	require.Greater(t, len(all), 15)
	return all
}

// The layers, from the top: a package imports packages of the layers below its own, and of its own
// only where sideways says so.
var layers = [][]string{
	{"ajo/cmd/ajo", "ajo/internal/rules", "ajo/internal/rules/states", "ajo/internal/e2e", "ajo/internal/spec/conformance", "ajo/bench", "ajo/docs/examples/go/receive", "ajo/docs/examples/go/payout"},
	{"ajo/internal/app"},
	{"ajo/api", "ajo/workers", "ajo/internal/console"},
	{"ajo/tasks", "ajo/ratelimit", "ajo/internal/payment", "ajo/internal/reconcile", "ajo/internal/transfer", "ajo/internal/freeze", "ajo/internal/limit", "ajo/internal/tenant", "ajo/internal/operator", "ajo/internal/webhook", "ajo/internal/account", "ajo/internal/customer", "ajo/internal/fee", "ajo/internal/archive", "ajo/internal/idempotency", "ajo/internal/invariant", "ajo/internal/rekey", "ajo/internal/statement"},
	{"ajo/internal/testenv"},
	{"ajo/ledger"},
	{
		"ajo/internal/money", "ajo/internal/fsm", "ajo/internal/errs", "ajo/internal/pg", "ajo/internal/audit", "ajo/internal/batch", "ajo/internal/clock", "ajo/internal/compact",
		"ajo/internal/page", "ajo/internal/retry", "ajo/internal/secret", "ajo/internal/totp", "ajo/internal/safehttp", "ajo/internal/mail", "ajo/internal/config", "ajo/internal/dashboard",
		"ajo/internal/provider", "ajo/internal/provider/nomba", "ajo/internal/identity", "ajo/internal/identity/dojah", "ajo/internal/redisconn",
		"ajo/internal/signature", "ajo/api/client", "ajo/internal/listen", "ajo/internal/sandbox", "ajo/internal/spool", "ajo/internal/stack", "ajo/internal/supervise", "ajo/internal/contract", "ajo/internal/fakebank", "ajo/internal/metrics", "ajo/internal/failpoint", "ajo/internal/spec", "ajo/internal/trace", "ajo/internal/work", "ajo/internal/retention", "ajo/internal/partition", "ajo/internal/replica", "ajo/migrations",
	},
}

// sideways are the imports within the layer of the capabilities.
var sideways = map[string][]string{
	"ajo/internal/payment":   {"ajo/internal/account", "ajo/internal/fee", "ajo/internal/webhook"},
	"ajo/internal/reconcile": {"ajo/internal/payment", "ajo/internal/transfer"},
	"ajo/internal/transfer":  {"ajo/internal/account", "ajo/internal/fee", "ajo/internal/freeze", "ajo/internal/idempotency", "ajo/internal/limit", "ajo/internal/webhook"},
	"ajo/internal/tenant":    {"ajo/internal/freeze", "ajo/internal/webhook"},
	"ajo/internal/customer":  {"ajo/internal/freeze"},
	"ajo/internal/limit":     {"ajo/internal/freeze"},
	"ajo/internal/invariant": {"ajo/internal/fee", "ajo/internal/freeze"},
	"ajo/internal/account":   {"ajo/internal/customer", "ajo/internal/fee", "ajo/internal/freeze", "ajo/internal/idempotency"},
}

// only says who alone may import a library.
var only = map[string][]string{
	"github.com/hibiken/asynq":     {"ajo/tasks", "ajo/workers"},
	"github.com/hibiken/asynqmon":  {"ajo/workers"},
	"github.com/gofiber/fiber/v2":  {"ajo/api"},
	"github.com/ulule/limiter/v3":  {"ajo/ratelimit"},
	"ajo/internal/contract":        {},                                // for tests
	"ajo/internal/spec":            {"ajo/internal/spec/conformance"}, // and tests
	"github.com/minio/minio-go/v7": {"ajo/internal/archive"},
	"go.opentelemetry.io/otel":     {"ajo/internal/trace"},
}

// never says who must not import a library.
var never = map[string][]string{
	"github.com/jackc/pgx/v5": {"ajo/api", "ajo/workers", "ajo/internal/console"},
}

func layerOf(path string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, path) })
}

func TestImportsRunOneWay(t *testing.T) {
	for _, p := range packages(t) {
		from := layerOf(p.ImportPath)
		if !assertKnown(t, p, from) {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "ajo/") {
				to := layerOf(imp)
				ok := to > from || (to == len(layers)-1 && from == to) || slices.Contains(sideways[p.ImportPath], imp)
				if !ok {
					t.Errorf("%s must not import %s", p.ImportPath, imp)
				}
			}
			for lib, who := range only {
				if under(imp, lib) && !slices.Contains(who, p.ImportPath) {
					t.Errorf("%s imports %s, which is for %v alone", p.ImportPath, imp, who)
				}
			}
			for lib, who := range never {
				if under(imp, lib) && slices.Contains(who, p.ImportPath) {
					t.Errorf("%s must not import %s", p.ImportPath, imp)
				}
			}
		}
	}
}

func under(imp, lib string) bool { return imp == lib || strings.HasPrefix(imp, lib+"/") }

func assertKnown(t *testing.T, p pkg, layer int) bool {
	t.Helper()
	if layer < 0 {
		t.Errorf("%s stands in no layer: add it to rules_test.go", p.ImportPath)
	}
	return layer >= 0
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.Doc) < 40 {
			t.Errorf("%s has no package comment that says what it owns", p.ImportPath)
		}
	}
}

// Money is never a float: no float type stands anywhere but in the places named here, which count
// time or chance.
func TestNoFloats(t *testing.T) {
	allowed := map[string]string{
		"ratelimit":          "seconds for a header",
		"internal/metrics":   "counts and seconds for Prometheus",
		"bench":              "rates and ratios",
		"internal/statement": "millimetres on a page",
	}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if ok && (id.Name == "float64" || id.Name == "float32" || id.Name == "ParseFloat" || id.Name == "InexactFloat64" || id.Name == "NewFromFloat") {
					if _, fine := allowed[strings.TrimPrefix(p.ImportPath, "ajo/")]; !fine {
						t.Errorf("%s/%s uses %s", p.ImportPath, name, id.Name)
					}
				}
				return true
			})
		}
	}
}

// The top level is the owner's: nothing else may stand there.
func TestTopLevel(t *testing.T) {
	allowed := []string{
		"cmd", "api", "tasks", "workers", "ledger", "ratelimit", "migrations", "deploy", "go.mod", "go.sum", "Makefile", "README.md",
		"internal", "docs", "bench", "CHANGELOG.md", "LICENSE", "bin",
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	require.NoError(t, err)
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	entries, err := filepath.Glob(filepath.Join(root, "*"))
	require.NoError(t, err)
	for _, e := range entries {
		name := filepath.Base(e)
		if !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) {
			t.Errorf("%s must not stand at the top level", name)
		}
	}
}

// Functions of about 70 lines, files of about 400: a longer one is two things.
func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			path := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(fset, path, nil, 0)
			require.NoError(t, err)
			if n := fset.Position(f.End()).Line; n > 440 {
				t.Errorf("%s has %d lines", path, n)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > 80 {
					t.Errorf("%s: %s has %d lines", path, fn.Name.Name, n)
				}
			}
		}
	}
}

// Two names of a package that differ only by case are mixed up by whoever speaks of them.
func TestNamesDifferByMoreThanCase(t *testing.T) {
	for _, p := range packages(t) {
		seen := map[string]string{}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, name := range declared(f) {
				lower := strings.ToLower(name)
				if other := seen[lower]; other != "" && other != name {
					t.Errorf("%s: %s and %s", p.ImportPath, other, name)
				}
				seen[lower] = name
			}
		}
	}
}

// declared are the names of a file's package scope, and of the methods with their receivers.
func declared(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				receiver := d.Recv.List[0].Type
				if star, ok := receiver.(*ast.StarExpr); ok {
					receiver = star.X
				}
				if id, ok := receiver.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			names = append(names, name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}

// A comment on lines of its own is at most 100 columns wide; a tab counts as four.
func TestCommentWidth(t *testing.T) {
	var files []string
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			files = append(files, filepath.Join(p.Dir, name))
		}
	}
	for _, pattern := range []string{"../../migrations/*.sql", "../tools/*/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		mark := "//"
		if strings.HasSuffix(path, ".sql") {
			mark = "--"
		}
		for i, line := range strings.Split(string(src), "\n") {
			line = strings.ReplaceAll(line, "\t", "    ")
			if n := utf8.RuneCountInString(line); strings.HasPrefix(strings.TrimSpace(line), mark) && n > 100 {
				t.Errorf("%s:%d: a comment of %d columns", path, i+1, n)
			}
		}
	}
}

// What goes into tenants' programs needs the standard library only.
func TestTheClientIsLean(t *testing.T) {
	own := []string{"ajo/api/client", "ajo/internal/signature"}
	for _, p := range packages(t) {
		if !slices.Contains(own, p.ImportPath) {
			continue
		}
		for _, imp := range p.Imports {
			root, _, _ := strings.Cut(imp, "/")
			if !slices.Contains(own, imp) && (root == "ajo" || strings.Contains(root, ".")) {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
}

// The README's table of settings is the one that the program prints.
func TestReadmeHasTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), config.Table(), "copy the output of `ajo settings`")
}
