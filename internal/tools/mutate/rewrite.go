package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// declaration is a declaration of constants.
type declaration struct {
	file     *sourceFile
	decl     *ast.GenDecl
	from, to int // in its file
}

// prepare turns constants of SQL that has mutants into variables, with what is made of them, and
// notes in which functions mutants of declarations and those that are compiled by themselves run.
func prepare(files map[string]*sourceFile, s *schema) error {
	byDir := map[string][]*sourceFile{}
	trees := map[*sourceFile]*ast.File{}
	fset := token.NewFileSet()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		tree, err := parser.ParseFile(fset, path, f.text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		trees[f] = tree
		byDir[filepath.Dir(path)] = append(byDir[filepath.Dir(path)], f)
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	var declared []declaration
	for f, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				declared = append(declared, declaration{f, d, offset(d.Pos()), offset(d.End())})
			}
			return true
		})
	}
	loosen(declared, s)
	for _, group := range byDir {
		noteUses(group, trees, s, offset)
	}
	return nil
}

// loosen makes variables of the constants whose literals have mutants, and of those that are made
// of them, by name in all packages together: a few more become variables than need be.
func loosen(declared []declaration, s *schema) {
	hot, loose := map[string]bool{}, map[*ast.GenDecl]bool{}
	for changed := true; changed; {
		changed = false
		for _, d := range declared {
			if loose[d.decl] || !d.isHot(hot, s) {
				continue
			}
			loose[d.decl], changed = true, true
			for _, name := range d.names() {
				hot[name] = true
			}
			d.file.inserts = append(d.file.inserts, added{d.from, d.from + len("const"), "var"})
		}
	}
}

// names are what the constants are called.
func (d declaration) names() (all []string) {
	for _, spec := range d.decl.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			all = append(all, name.Name)
		}
	}
	return all
}

// isHot reports whether the constants can be none: a literal has mutants, or a variable is in it.
func (d declaration) isHot(hot map[string]bool, s *schema) bool {
	is := slices.ContainsFunc(d.file.mutants, func(m mutant) bool {
		return m.host.hosting == literal && !s.apart[m.id] && m.host.from >= d.from && m.host.to <= d.to
	})
	for _, spec := range d.decl.Specs {
		for _, value := range spec.(*ast.ValueSpec).Values {
			ast.Inspect(value, func(n ast.Node) bool {
				name, ok := n.(*ast.Ident)
				is = is || ok && hot[name.Name]
				return true
			})
		}
	}
	return is
}

// noteUses makes each function of a package say which mutants it runs: those of what it names that
// is declared outside of functions, and those inside it that cannot say so themselves.
func noteUses(group []*sourceFile, trees map[*sourceFile]*ast.File, s *schema, offset func(token.Pos) int) {
	outside := map[string][]int{} // the mutants of each name's declaration
	uses := map[string][]string{} // the declarations that name it
	values := map[string]string{}
	for _, f := range group {
		for _, m := range f.mutants {
			for _, name := range m.declares {
				outside[name] = append(outside[name], m.id)
			}
		}
		for _, d := range trees[f].Decls {
			if g, ok := d.(*ast.GenDecl); ok && (g.Tok == token.CONST || g.Tok == token.VAR) {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						values[name.Name] = string(f.text[offset(spec.Pos()):offset(spec.End())])
					}
				}
			}
		}
	}
	for name, text := range values {
		for _, word := range words.FindAllString(text, -1) {
			if _, ok := values[word]; ok && word != name {
				uses[name] = append(uses[name], word)
			}
		}
	}
	var reach func(name string, seen map[string]bool) []int
	reach = func(name string, seen map[string]bool) []int {
		if seen[name] {
			return nil
		}
		seen[name] = true
		ids := slices.Clone(outside[name])
		for _, other := range uses[name] {
			ids = append(ids, reach(other, seen)...)
		}
		return ids
	}
	for _, f := range group {
		for _, d := range trees[f].Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || f.isTest {
				continue
			}
			from, to := offset(fn.Body.Pos())+1, offset(fn.End())
			var ids []int
			seen := map[string]bool{}
			for _, word := range words.FindAllString(string(f.text[from:to]), -1) {
				ids = append(ids, reach(word, seen)...)
			}
			for _, m := range f.mutants {
				if m.declares == nil && m.offset >= offset(fn.Pos()) && m.end <= to && (m.host.hosting == alone || s.apart[m.id]) {
					ids = append(ids, m.id)
				}
			}
			if len(ids) > 0 {
				slices.Sort(ids)
				f.inserts = append(f.inserts, added{from, from, " mutant_probe.Seen(" + list(slices.Compact(ids)) + ");"})
			}
		}
	}
}

var words = regexp.MustCompile(`\w+`)

func list(ids []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}

// write puts the mutants and the inserts into the file's text, if there are any.
func (f *sourceFile) write(s *schema, probe string) bool {
	groups := map[host][]mutant{}
	for _, m := range f.mutants {
		if !s.apart[m.id] {
			h := m.host
			h.hosting = ""
			groups[h] = append(groups[h], m)
		}
	}
	if len(groups) == 0 && len(f.inserts) == 0 {
		return false
	}
	hosts := slices.SortedFunc(maps.Keys(groups), func(a, b host) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	slices.SortStableFunc(f.inserts, func(a, b added) int { return a.at - b.at })
	w := &writer{sourceFile: f, original: f.text, groups: groups, hosts: hosts}
	first := packageClause.FindIndex(f.text)[1]
	w.copy(0, first)
	fmt.Fprintf(&w.out, "; import mutant_probe %q", probe)
	w.copy(first, len(f.text))
	w.out.WriteString("\nvar _ = mutant_probe.On\n")
	f.text = w.out.Bytes()
	return true
}

var packageClause = regexp.MustCompile(`(?m)^package \w+`)

// writer writes a file with its mutants.
type writer struct {
	*sourceFile
	original []byte
	groups   map[host][]mutant
	hosts    []host
	out      bytes.Buffer
}

// copy writes a part of the source with the hosts and the inserts inside it.
func (w *writer) copy(from, to int) {
	for _, h := range w.hosts {
		if h.from < from || h.to > to {
			continue
		}
		if h.from == from && h.to == to && w.groups[h] == nil {
			continue
		}
		w.plain(from, h.from)
		w.group(h)
		from = h.to
	}
	w.plain(from, to)
}

// plain writes a part of the source that has no hosts.
func (w *writer) plain(from, to int) {
	for _, in := range w.inserts {
		if in.at < from || in.at >= to {
			continue
		}
		w.out.Write(w.original[from:in.at])
		w.out.WriteString(in.text)
		from = in.end
	}
	w.out.Write(w.original[from:to])
}

// group writes a host: each form that it may have, and its own, in which further hosts stand.
func (w *writer) group(h host) {
	mutants := w.groups[h]
	delete(w.groups, h)
	defer func() { w.groups[h] = mutants }()
	var ids []int
	for _, m := range mutants {
		ids = append(ids, m.id)
	}
	begin := w.out.Len()
	form := func(m mutant) {
		at := w.out.Len()
		w.out.Write(w.original[h.from:m.offset])
		w.out.WriteString(m.after)
		w.out.Write(w.original[m.end:h.to])
		w.spans = append(w.spans, span{at, w.out.Len(), []int{m.id}})
	}
	switch mutants[0].host.hosting {
	case condition:
		w.out.WriteString("(")
		for _, m := range mutants {
			fmt.Fprintf(&w.out, "mutant_probe.On(%d) && (\n", m.id)
			form(m)
			w.out.WriteString(") || ")
		}
		fmt.Fprintf(&w.out, "mutant_probe.None(%s) && (\n", list(ids))
		w.copy(h.from, h.to)
		w.out.WriteString("))")
	case value:
		for _, m := range mutants {
			fmt.Fprintf(&w.out, "mutant_probe.Either(%d,\n", m.id)
			form(m)
			w.out.WriteString(",\n")
		}
		w.copy(h.from, h.to)
		w.out.WriteString(strings.Repeat(")", len(mutants)))
	case literal:
		w.out.WriteString("mutant_probe.Text(")
		w.out.Write(w.original[h.from:h.to])
		for _, m := range mutants {
			fmt.Fprintf(&w.out, ", mutant_probe.Edit{%d, %d, %d, `%s`}", m.id, m.offset-h.from-1, m.end-h.from-1, m.after)
		}
		w.out.WriteString(")")
	}
	w.spans = append(w.spans, span{begin, w.out.Len(), ids})
}
