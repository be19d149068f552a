package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// mark says that a test shows a row.
type mark struct {
	row, test string
	folder    string // of the test's file, within the module
}

// marks reads the marks in all test files of the module.
func marks(root string) (all []mark, err error) {
	linux := build.Default
	linux.GOOS, linux.CgoEnabled = "linux", true
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipped(root, path, d.Name())
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found, err := inFile(path, filepath.ToSlash(folder))
		if err != nil || len(found) == 0 {
			return err
		}
		if built, err := linux.MatchFile(filepath.Dir(path), d.Name()); err != nil {
			return err
		} else if !built {
			return fmt.Errorf("%s is not built, so its marks show nothing", path)
		}
		all = append(all, found...)
		return nil
	})
	return all, err
}

// skipped leaves out folders whose tests are not the module's.
func skipped(root, path, name string) error {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if path != root && (err == nil || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules") {
		return fs.SkipDir
	}
	return nil
}

var testName = regexp.MustCompile(`^Test($|[^a-z])`)

// inFile reads one file. A mark counts only as a statement of a test's own body, outside of any
// condition or subtest, and not in a test that always skips.
func inFile(path, folder string) (all []mark, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	name := importName(file)
	if name == "" {
		return nil, nil
	}
	var wrong []error
	counted := map[*ast.CallExpr]bool{}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Body == nil || !testName.MatchString(fn.Name.Name) {
			continue
		}
		skips := false
		var rows []string
		for _, s := range fn.Body.List {
			call, to, method := callOf(s)
			switch {
			case to == name && method == "Shows":
				counted[call] = true
				found, err := texts(call.Args)
				if err != nil {
					wrong = append(wrong, fmt.Errorf("%s: %w", files.Position(call.Pos()), err))
				}
				rows = append(rows, found...)
			case method == "Skip" || method == "Skipf" || method == "SkipNow":
				skips = true
			}
		}
		if skips && len(rows) > 0 {
			wrong = append(wrong, fmt.Errorf("%s: %s always skips, so it shows nothing", files.Position(fn.Pos()), fn.Name.Name))
		}
		for _, r := range rows {
			all = append(all, mark{row: r, test: fn.Name.Name, folder: folder})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && !counted[call] {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && isName(s.X, name) && s.Sel.Name == "Shows" {
				wrong = append(wrong, fmt.Errorf("%s: a mark that is no statement of a test's own body", files.Position(call.Pos())))
			}
		}
		return true
	})
	return all, errors.Join(wrong...)
}

// importName is the name by which the file knows package spec, or "".
func importName(file *ast.File) string {
	for _, i := range file.Imports {
		if i.Path.Value == `"ajo/internal/spec"` {
			if i.Name != nil {
				return i.Name.Name
			}
			return "spec"
		}
	}
	return ""
}

// callOf returns the call that the statement is, if it is one, as x.method.
func callOf(s ast.Stmt) (call *ast.CallExpr, x, method string) {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return nil, "", ""
	}
	if call, ok = e.X.(*ast.CallExpr); !ok {
		return nil, "", ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, "", ""
	}
	if id, ok := sel.X.(*ast.Ident); ok {
		x = id.Name
	}
	return call, x, sel.Sel.Name
}

func isName(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// texts are the ids of a mark: its arguments after the test, each written out.
func texts(args []ast.Expr) (all []string, err error) {
	for _, a := range args[min(1, len(args)):] {
		l, ok := a.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return nil, errors.New("a mark names its rows as texts, written out")
		}
		s, err := strconv.Unquote(l.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, errors.New("a mark without a row")
	}
	return all, nil
}
