package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	// the path below the root, and the function, or what else is declared there
	file, function   string
	line             int
	before, after    string
	left, right      string   // what stands beside it on its line
	nth              int      // of the same change in the same function, from 1
	offset, end      int      // what after stands for
	old, new         string   // its lines, before and after
	column, from, to int      // the lines of its function
	declares         []string // outside of functions: the names
	tests            []string
	id               int  // its number among all mutants, from 1
	host             host // what is written another way to switch it on in a running program
}

// kinds tell mutants apart by what they are about; those that match none are about a boundary.
var kinds = []struct {
	name  string
	words *regexp.Regexp
}{
	{"lock", regexp.MustCompile(`FOR (NO KEY )?(UPDATE|SHARE)|(?i)leased_until|fence|version`)},
	{"scope", regexp.MustCompile(`(?i)tenant_?id|account_?id|customer_?id|authentic`)},
	{"state", regexp.MustCompile(`(?i)status|state|Event(Confirm|Reverse)`)},
	{"money", regexp.MustCompile(`(?i)amount|fee|balance|sum|credit|debit|IsPositive|IsNegative|IsZero|kobo|confirmed|provisional`)},
}

// kind is what the mutant is about: a lock, a scope, a state, money or a boundary.
func (m mutant) kind() string {
	for _, k := range kinds {
		if k.words.MatchString(m.before) {
			return k.name
		}
	}
	return "boundary"
}

// key names the mutant wherever its lines move.
func (m mutant) key() string {
	key := oneLine(fmt.Sprintf("%s %s: %s[%s => %s]%s", m.file, m.function, m.left, oneLine(m.before), oneLine(m.after), m.right))
	if m.nth > 1 {
		key += fmt.Sprintf(" (%d)", m.nth)
	}
	return key
}

// String is the key with the place and the change.
func (m mutant) String() string { return m.key() + "\n" + m.diff() }

// diff shows where the change is, and its lines before and after.
func (m mutant) diff() string {
	lines := func(sign, text string) string {
		return "\n    " + sign + strings.ReplaceAll(text, "\n", "\n    "+sign)
	}
	return fmt.Sprintf("    %s:%d", m.file, m.line) + lines("-", m.old) + lines("+", m.new)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// mutantsOf lists the mutants of the targets' files, in a fixed order.
func mutantsOf(root string, targets []target) (all []mutant, err error) {
	for _, t := range targets {
		files, err := filepath.Glob(filepath.Join(root, t.dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			found, err := mutantsIn(root, f)
			if err != nil {
				return nil, err
			}
			for i := range found {
				found[i].tests = t.tests
			}
			all = append(all, found...)
		}
	}
	for i := range all {
		all[i].id = i + 1
	}
	return all, nil
}

// finder collects the mutants of one file.
type finder struct {
	fset     *token.FileSet
	source   []byte
	file     string
	function string
	from, to int
	declares []string
	found    []mutant
	around   []ast.Node // what the visited node stands in, and itself
}

func mutantsIn(root, path string) ([]mutant, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	f := finder{fset: token.NewFileSet(), source: source, file: filepath.ToSlash(name)}
	tree, err := parser.ParseFile(f.fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.function = d.Name.Name
			f.from, f.to, f.declares = f.fset.Position(d.Pos()).Line, f.fset.Position(d.End()).Line, nil
			if d.Name.Name == "String" { // for people alone
				continue
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT || d.Tok == token.TYPE {
				continue
			}
			f.function = d.Tok.String()
			for _, spec := range d.Specs {
				f.from, f.to, f.declares = 0, 0, nil
				for _, name := range spec.(*ast.ValueSpec).Names {
					f.declares = append(f.declares, name.Name)
				}
				f.inspect(spec)
			}
			continue
		}
		f.inspect(d)
	}
	slices.SortStableFunc(f.found, func(a, b mutant) int { return cmp.Compare(a.offset, b.offset) })
	seen := map[string]int{}
	for i, m := range f.found {
		seen[m.key()]++
		f.found[i].nth = seen[m.key()]
	}
	return f.found, nil
}

// add notes the mutant that has after in the place of the node.
func (f *finder) add(from, to token.Pos, after string) {
	start, end := f.fset.Position(from).Offset, f.fset.Position(to).Offset
	left, right := string(f.source[:start]), string(f.source[end:])
	left = left[strings.LastIndex(left, "\n")+1:]
	right, _, _ = strings.Cut(right, "\n")
	before := string(f.source[start:end])
	old, changed := left+before+right, left+after+right
	left, right = left[max(0, len(left)-beside):], right[:min(len(right), beside)]
	f.found = append(f.found, mutant{
		file: f.file, function: f.function, line: f.fset.Position(from).Line, before: before, after: after,
		left: strings.ToValidUTF8(left, ""), right: strings.ToValidUTF8(right, ""), offset: start, end: end, old: old, new: changed,
		from: f.from, to: f.to, declares: f.declares, column: f.fset.Position(from).Column,
		host: f.host(from, to),
	})
}

// inspect visits a declaration.
func (f *finder) inspect(d ast.Node) {
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			f.around = f.around[:len(f.around)-1]
			return false
		}
		f.around = append(f.around, n)
		more := f.visit(n)
		if !more {
			f.around = f.around[:len(f.around)-1]
		}
		return more
	})
}

// beside is how much of its line names a mutant, on either side.
const beside = 40

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset])
}

// quiet are calls whose arguments decide nothing: logs, metrics, traces, and the texts of errors.
var quiet = []string{"slog.", "log.", "Log.", "metrics.", "span.", "trace.", "failpoint.", "fmt.Errorf", "errors.New", "errs.New", "panic", "make(", "fmt.Fprint"}

// visit adds the mutants of one node.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		called := f.text(n.Fun) + "("
		for _, q := range quiet {
			if strings.HasPrefix(called, q) || strings.Contains(called, "."+q) {
				return false
			}
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IfStmt:
		f.branch(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !ofErrors(f.text(n)) {
			f.add(n.Pos(), n.End(), f.text(n.X))
		}
	case *ast.SelectorExpr:
		f.swap(n.Sel)
	case *ast.Ident:
		f.swap(n)
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			f.sql(n)
		}
	case *ast.ValueSpec:
		for _, v := range n.Values {
			f.number(v)
		}
	}
	return true
}

// operators are what each comparison is mistaken for: its neighbour at the boundary, and its
// opposite.
var operators = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="},
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if ofErrors(f.text(n)) {
		return
	}
	switch n.Op {
	case token.LAND, token.LOR: // a condition that was forgotten
		if !ofErrors(f.text(n.Y)) {
			f.add(n.Pos(), n.End(), f.text(n.X))
		}
		if !ofErrors(f.text(n.X)) {
			f.add(n.Pos(), n.End(), f.text(n.Y))
		}
	case token.ADD, token.SUB:
		if strings.ContainsAny(f.text(n), "\"`") {
			return
		}
		other := map[token.Token]string{token.ADD: "-", token.SUB: "+"}[n.Op]
		f.add(n.Pos(), n.End(), f.text(n.X)+" "+other+" "+f.text(n.Y))
	}
	for _, other := range operators[n.Op] {
		f.add(n.Pos(), n.End(), f.text(n.X)+" "+other+" "+f.text(n.Y))
	}
	if operators[n.Op] != nil {
		f.number(n.Y)
	}
}

// ofErrors reports whether a condition is about an error alone: only a fault would show it, which
// the tests of faults do.
func ofErrors(condition string) bool {
	c := strings.TrimSpace(condition)
	return strings.HasSuffix(c, "rr != nil") || strings.HasSuffix(c, "rr == nil") || strings.HasSuffix(c, "IsNoRows(err)") || strings.HasPrefix(c, "span.")
}

// branch takes away an early end: the condition is made false.
func (f *finder) branch(n *ast.IfStmt) {
	condition := f.text(n.Cond)
	if ofErrors(condition) || strings.HasPrefix(condition, "len(") && strings.HasSuffix(condition, "== 0") || len(n.Body.List) == 0 {
		return // with nothing to do, doing it is the same
	}
	switch last := n.Body.List[len(n.Body.List)-1].(type) {
	case *ast.ReturnStmt:
	case *ast.BranchStmt:
		if last.Tok != token.CONTINUE && last.Tok != token.BREAK {
			return
		}
	default:
		return
	}
	f.add(n.Cond.Pos(), n.Cond.End(), "false && ("+condition+")")
}

// swaps are names that are mistaken for one another.
var swaps = map[string]string{
	"Credit": "Debit", "Debit": "Credit", "Add": "Sub", "Sub": "Add", "Before": "After", "After": "Before",
	"IsPositive": "IsNegative", "IsNegative": "IsPositive", "EventConfirm": "EventReverse", "EventReverse": "EventConfirm",
}

func (f *finder) swap(n *ast.Ident) {
	other, ok := swaps[n.Name]
	if !ok || f.function == n.Name || f.seen(n.Pos()) {
		return
	}
	f.add(n.Pos(), n.End(), other)
}

// seen reports whether there is a mutant of a name at the place: a selector's name is visited
// twice.
func (f *finder) seen(at token.Pos) bool {
	offset := f.fset.Position(at).Offset
	return slices.ContainsFunc(f.found, func(m mutant) bool { return m.offset == offset && swaps[m.before] != "" })
}

// number takes a whole number of a boundary or a constant one too high and one too low, and a time
// twice as long.
func (f *finder) number(e ast.Expr) {
	isTime := strings.Contains(f.text(e), "time.")
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && strings.HasPrefix(f.text(call), "make(") {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.INT || strings.HasPrefix(lit.Value, "0x") {
			return true
		}
		v, err := strconv.ParseInt(strings.ReplaceAll(lit.Value, "_", ""), 10, 64)
		if err != nil {
			return true
		}
		if isTime {
			f.add(lit.Pos(), lit.End(), strconv.FormatInt(2*v, 10))
			return true
		}
		f.add(lit.Pos(), lit.End(), strconv.FormatInt(v+1, 10))
		if v > 0 {
			f.add(lit.Pos(), lit.End(), strconv.FormatInt(v-1, 10))
		}
		return true
	})
}
