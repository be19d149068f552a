package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module of one package, with a test, and returns its root.
func module(t *testing.T, source, test string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example\n\ngo 1.26\n", "p/p.go": source, "p/p_test.go": test} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const source = `package p

// Covers tells whether a balance covers a sum.
func Covers(balance, sum int) bool { return balance >= sum }

// Limited tells whether n is above the limit.
func Limited(n int) bool { return n > limit }

const limit = 10
`

const weakTest = `package p

import "testing"

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		balance, sum int
		want         bool
	}{{1, 1, true}, {1, 2, false}, {2, 1, true}} {
		if Covers(c.balance, c.sum) != c.want {
			t.Error(c)
		}
	}
}

func TestLimited(t *testing.T) {
	if Limited(1) || !Limited(100) {
		t.Error("far from the limit")
	}
}
`

// The obvious mistakes die, and those at the boundary that the test does not try are survivors, by
// name; a survivor that is excused is not tried; an excuse for what is no mutant is an error, and
// so is a score below the mark.
func TestKillsAndReportsSurvivors(t *testing.T) {
	t.Parallel()
	root := module(t, source, weakTest)
	there := []target{{"p", []string{"./p"}}}
	all, err := mutantsOf(root, there)
	if err != nil {
		t.Fatal(err)
	}
	o := options{root: root, limit: time.Minute, jobs: 2, seed: 1, command: []string{"go"}}
	if err := baseline(t.Context(), o, all); err != nil {
		t.Fatal(err)
	}
	fates := map[string]fate{}
	results := try(t.Context(), o, draw(all, nil, o))
	for _, r := range results {
		fates[r.key()] = r.fate
		if r.fate == killed && !strings.HasPrefix(r.by, "by Test") {
			t.Errorf("%s: %q does not name a test", r.key(), r.by)
		}
	}
	want := map[string]fate{
		"p/p.go Covers: Covers(balance, sum int) bool { return [balance >= sum => balance > sum] }": killed,
		"p/p.go Covers: Covers(balance, sum int) bool { return [balance >= sum => balance < sum] }": killed,
		"p/p.go Limited: func Limited(n int) bool { return [n > limit => n >= limit] }":             survived,
		"p/p.go Limited: func Limited(n int) bool { return [n > limit => n <= limit] }":             killed,
		"p/p.go const: const limit = [10 => 11]":                                                    survived,
		"p/p.go const: const limit = [10 => 9]":                                                     survived,
	}
	for key, f := range want {
		if fates[key] != f {
			t.Errorf("%s: %q, not %q", key, fates[key], f)
		}
	}
	if len(fates) != len(want) {
		t.Errorf("other mutants than those: %v", fates)
	}
	var out strings.Builder
	if err := report(&out, results, 0); err == nil || !strings.Contains(out.String(), "score: 50.0 % (3 of 6") ||
		!strings.Contains(out.String(), "survived: p/p.go const: const limit = [10 => 11]\n    line 9") {
		t.Errorf("%v\n%s", err, out.String())
	}

	file := filepath.Join(root, "excused.txt")
	excuse := func(text string) excuses {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := readExcuses(file)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := excuse("# some\np/p.go const: const limit = [10 => 11]\n    any number does\n\np/p.go const: const limit = [10 => 12]\n    this is none\n")
	if unused := x.unused(all); len(unused) != 1 || !strings.Contains(unused[0], "[10 => 12]") {
		t.Errorf("unused: %v", unused)
	}
	if left := draw(all, x, o); len(left) != len(all)-1 {
		t.Errorf("%d drawn of %d", len(left), len(all))
	}
	o.count = 2
	if a, b := draw(all, x, o), draw(all, x, o); len(a) != 2 || a[0].key() != b[0].key() || a[1].key() != b[1].key() {
		t.Error("the same seed draws the same")
	}
}

// Tests that run into their limit have noticed nothing: a busy machine does the same.
func TestTimeIsNoKiller(t *testing.T) {
	t.Parallel()
	root := module(t, source, `package p

import (
	"testing"
	"time"
)

func TestForLong(*testing.T) { time.Sleep(time.Hour) }
`)
	all, err := mutantsOf(root, []target{{"p", []string{"./p"}}})
	if err != nil {
		t.Fatal(err)
	}
	o := options{root: root, limit: time.Second, command: []string{"go"}}
	results := try(t.Context(), o, all[:1])
	if results[0].fate != late {
		t.Errorf("%q by %q", results[0].fate, results[0].by)
	}
	var out strings.Builder
	if err := report(&out, append(results, result{fate: killed}), 0); err != nil || !strings.Contains(out.String(), "(1 of 1; 0 do not compile, 1 timed out") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// What fails without any change is no killer.
func TestBaselineMustPass(t *testing.T) {
	t.Parallel()
	root := module(t, source, strings.Replace(weakTest, "!Limited(100)", "Limited(100)", 1))
	all, err := mutantsOf(root, []target{{"p", []string{"./p"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = baseline(t.Context(), options{root: root, limit: time.Minute, command: []string{"go"}}, all)
	if err == nil || !strings.Contains(err.Error(), "far from the limit") {
		t.Error(err)
	}
}

// The mistakes of a statement, as it is written with each.
func TestSQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"`SELECT id FROM accounts WHERE id = $1 AND tenant_id = $2 FOR UPDATE SKIP LOCKED`", []string{
			"`SELECT id FROM accounts WHERE id = $1 AND tenant_id = $2`",
			"`SELECT id FROM accounts WHERE ((id = $1) OR true) AND tenant_id = $2 FOR UPDATE SKIP LOCKED`",
			"`SELECT id FROM accounts WHERE id = $1 AND ((tenant_id = $2) OR true) FOR UPDATE SKIP LOCKED`",
		}},
		{"`UPDATE work SET n = n + 1, m = 2 WHERE status = ANY($1) AND due_at <= $2\n\tRETURNING id`", []string{
			"`UPDATE work SET n = n + 1, m = 2 WHERE ((status = ANY($1)) OR true) AND due_at <= $2\n\tRETURNING id`",
			"`UPDATE work SET n = n + 1, m = 2 WHERE status = ANY($1) AND ((due_at <= $2) OR true)\n\tRETURNING id`",
			"`UPDATE work SET n = n + 1, m = 2 WHERE status = ANY($1) AND due_at < $2\n\tRETURNING id`",
			"`UPDATE work SET n = n - 1, m = 2 WHERE status = ANY($1) AND due_at <= $2\n\tRETURNING id`",
		}},
		{"`SELECT sum(amount) FILTER (WHERE direction = 'credit') FROM e WHERE at BETWEEN $1 AND $2`", []string{
			"`SELECT sum(amount) FILTER (WHERE ((direction = 'credit') OR true)) FROM e WHERE at BETWEEN $1 AND $2`",
			"`SELECT sum(amount) FILTER (WHERE direction = 'credit') FROM e WHERE ((at BETWEEN $1 AND $2) OR true)`",
			"`SELECT sum(amount) FILTER (WHERE direction = 'debit') FROM e WHERE at BETWEEN $1 AND $2`",
		}},
		// A comment's apostrophe is not closed: its condition is left alone, and the search ends
		// with the text.
		{"`SELECT 1 WHERE a = b -- the row's AND 'its", []string{"`SELECT 1 WHERE ((a = b) OR true) -- the row's AND 'its"}},
		{"`SELECT 1 WHERE a = 'b", nil},
	} {
		var got []string
		for _, e := range sqlEdits(c.text) {
			got = append(got, c.text[:e.from]+e.after+c.text[e.to:])
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s\n%s", c.text, strings.Join(got, "\n"))
		}
	}
}

// The tree has mutants of each kind, and its excuses can be read.
func TestKindsOfTheTree(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	all, err := mutantsOf(root, targets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readExcuses("excused.txt"); err != nil {
		t.Error(err)
	}
	seen := map[string]int{}
	for _, m := range all {
		switch {
		case strings.Contains(m.before, "FOR UPDATE"):
			seen["a lock"]++
		case strings.Contains(m.before, "tenant_id") && strings.HasSuffix(m.after, "OR true)"):
			seen["a scope"]++
		case m.before == "Credit" || m.before == "credit":
			seen["a side"]++
		case strings.HasPrefix(m.after, "false && ("):
			seen["an early end"]++
		}
	}
	for _, kind := range []string{"a lock", "a scope", "a side", "an early end"} {
		if seen[kind] < 5 {
			t.Errorf("%d mutants of %s", seen[kind], kind)
		}
	}
}
