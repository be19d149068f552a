package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// edit is a change inside a text.
type edit struct {
	from, to int
	after    string
}

// statement tells SQL from other texts: its keywords stand in capitals.
var statement = regexp.MustCompile(`\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|FROM|AND) `)

// sql adds the mutants of a literal that holds SQL.
func (f *finder) sql(n *ast.BasicLit) {
	if !statement.MatchString(n.Value) || !strings.HasPrefix(n.Value, "`") {
		return
	}
	for _, e := range sqlEdits(n.Value) {
		from := n.Pos() + token.Pos(e.from)
		f.add(from, n.Pos()+token.Pos(e.to), e.after)
	}
}

var (
	locks       = regexp.MustCompile(`(?s)\s+FOR (NO KEY )?(UPDATE|SHARE)( OF \w+)?( SKIP LOCKED| NOWAIT)?`)
	conditions  = regexp.MustCompile(`\b(WHERE|AND|ON)\s+`)
	comparisons = regexp.MustCompile(` (<=|>=|<>|<|>) `)
	sides       = regexp.MustCompile(`'(credit|debit)'`)
	sums        = regexp.MustCompile(`\w (\+|-) [\w$(]`)
	ends        = regexp.MustCompile(`^\s*(AND|OR|ORDER|LIMIT|RETURNING|FOR|GROUP|HAVING|WHERE|UNION|THEN|ELSE|END|ON|JOIN|LEFT|WINDOW|OFFSET|WHEN|SET|DO|SELECT|INSERT|UPDATE|EXCEPT)\b`)
)

// sqlEdits are the mistakes that a statement may have: a lock forgotten, a condition forgotten, a
// boundary missed, the sides or the sign mistaken. A condition that is forgotten stays there as one
// that always holds, so that its parameters keep their types.
func sqlEdits(text string) (edits []edit) {
	for _, at := range locks.FindAllStringIndex(text, -1) {
		edits = append(edits, edit{at[0], at[1], ""})
	}
	for _, at := range conditions.FindAllStringIndex(text, -1) {
		end := conditionEnd(text, at[1])
		condition := text[at[1]:end]
		between := strings.HasPrefix(text[at[0]:], "AND") && isBetween(text[:at[0]])
		torn := strings.HasPrefix(condition, "(") && !strings.HasSuffix(condition, ")") || strings.Count(condition, "'")%2 != 0
		// "true" is forgotten already, and a CASE is cut at its WHEN, which leaves no statement
		none := condition == "" || condition == "true" || strings.HasPrefix(condition, "CONFLICT") || strings.HasPrefix(condition, "CASE ")
		if between || torn || none {
			continue
		}
		edits = append(edits, edit{at[1], end, "((" + condition + ") OR true)"})
	}
	for _, at := range comparisons.FindAllStringSubmatchIndex(text, -1) {
		other := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "="}[text[at[2]:at[3]]]
		edits = append(edits, edit{at[2], at[3], other})
	}
	for _, at := range sides.FindAllStringSubmatchIndex(text, -1) {
		edits = append(edits, edit{at[2], at[3], map[string]string{"credit": "debit", "debit": "credit"}[text[at[2]:at[3]]]})
	}
	for _, at := range sums.FindAllStringSubmatchIndex(text, -1) {
		edits = append(edits, edit{at[2], at[3], map[string]string{"+": "-", "-": "+"}[text[at[2]:at[3]]]})
	}
	return edits
}

// isBetween reports whether the AND that follows belongs to a BETWEEN.
func isBetween(before string) bool {
	b := strings.LastIndex(before, "BETWEEN ")
	return b >= 0 && !strings.Contains(before[b:], "AND")
}

// conditionEnd is where the condition that begins at from ends: at the next keyword or comma
// outside its own parentheses.
func conditionEnd(text string, from int) int {
	depth, last, between := 0, from, false
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '`' || c == ';' || c == ',' && depth == 0:
			depth = -1
		case c == '\'':
			for i++; i < len(text)-1 && text[i] != '\''; i++ {
			}
		case c == '-' && strings.HasPrefix(text[i:], "--"):
			depth = -1
		case depth == 0 && strings.HasPrefix(text[i:], " BETWEEN "):
			between = true
		case depth == 0 && between && strings.HasPrefix(text[i:], " AND "):
			between = false
		case depth == 0 && (c == ' ' || c == '\n' || c == '\t') && ends.MatchString(text[i:]) && i > from:
			depth = -1
		}
		if depth < 0 {
			break
		}
		if c := text[i]; c != ' ' && c != '\n' && c != '\t' {
			last = i + 1
		}
	}
	return last
}
