package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// Covers reports whether a balance covers a sum.
func Covers(balance, sum int) bool { return balance >= sum }

// Limited reports whether n is above the limit.
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
	all := mutantsOfSource(t, root, "./p")
	o := options{root: root, covered: []string{"./p"}, limit: time.Minute, budget: time.Minute, jobs: 2, seed: 1}
	var out strings.Builder
	want := map[string]fate{
		"p/p.go Covers: Covers(balance, sum int) bool { return [balance >= sum => balance > sum]": killed,
		"p/p.go Covers: Covers(balance, sum int) bool { return [balance >= sum => balance < sum]": killed,
		"p/p.go Limited: func Limited(n int) bool { return [n > limit => n >= limit]":             survived,
		"p/p.go Limited: func Limited(n int) bool { return [n > limit => n <= limit]":             killed,
		"p/p.go const: const limit = [10 => 11]":                                                  survived,
		"p/p.go const: const limit = [10 => 9]":                                                   survived,
	}
	if err := try(t.Context(), o, all, draw(all, nil, o), 7, &out); err == nil || !strings.Contains(err.Error(), "below 95 %") {
		t.Error(err)
	}
	fates := map[string]fate{}
	for _, m := range regexp.MustCompile(`(?m)^\d/6 (killed|survived) in [\d.]+ s: (p/p.go .*\]) ?}? (by TestCovers|by TestLimited)?(?: ?\(\d tests cover it; 0 slower ones were not asked\))?$`).FindAllStringSubmatch(out.String(), -1) {
		fates[m[2]] = fate(m[1])
		if (m[1] == string(killed)) != (m[3] != "") {
			t.Errorf("the test that noticed it: %q", m[0])
		}
	}
	if !maps.Equal(fates, want) {
		t.Errorf("fates: %v in\n%s", fates, out.String())
	}
	for _, text := range []string{
		"survived: p/p.go const: const limit = [10 => 11]\n    p/p.go:9\n    -const limit = 10\n    +const limit = 11\n",
		"\nscore: 50.0 % (3 killed, 3 survived, 0 timed out, 0 do not compile; 7 are excused)\n",
		"1/6 ", "6/6 ", "    so far: 50.0 % (3 killed, 3 survived, ",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, out.String())
		}
	}
	if n := strings.Count(out.String(), "the tests of ./p pass as they are: 2, of which 2 were run, in "); n != 1 {
		t.Errorf("the tests ran %d times without a change", n)
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
	x = excuse("p/p.go const: const limit = *\np/p.go const: const other = *\n    any number does\n")
	if unused := x.unused(all); len(unused) != 1 || !strings.Contains(unused[0], "const other = *") {
		t.Errorf("unused: %v", unused)
	}
	if left := draw(all, x, o); len(left) != len(all)-2 || x.count(all) != 2 {
		t.Errorf("%d drawn of %d", len(left), len(all))
	}
	o.count = 2
	if a, b := draw(all, x, o), draw(all, x, o); len(a) != 2 || a[0].key() != b[0].key() || a[1].key() != b[1].key() {
		t.Error("the same seed draws the same")
	}
	o.count, o.only = 0, "^p/p.go (Covers|None):"
	if drawn := draw(all, nil, o); len(drawn) != 2 || drawn[0].function != "Covers" || drawn[1].function != "Covers" {
		t.Errorf("drawn of one function: %v", drawn)
	}
}

// newTestedTester is closed when the test ends.
func newTestedTester(t *testing.T, o options, all []mutant, out io.Writer) *tester {
	t.Helper()
	tester, err := newTester(t.Context(), o, all, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tester.close() })
	return tester
}

// mutantsOfSource are the mutants of the module's package.
func mutantsOfSource(t *testing.T, root string, tests ...string) []mutant {
	t.Helper()
	all, err := mutantsOf(root, []target{{"p", tests}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// runsOf makes a test that notes each run in a file, and then does as it is told.
func runsOf(t *testing.T, then string) (test string, runs func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs")
	return fmt.Sprintf(`package p

import (
		"os"
		"testing"
		"time"
)

func TestRuns(t *testing.T) {
	f, err := os.OpenFile(%q, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(".")
	f.Close()
	text, _ := os.ReadFile(%q)
	run, noticed := len(text), !Limited(limit+1) || Limited(limit)
	_, _ = run, noticed
	%s
	time.Sleep(0)
}
`, file, file, then), func() int {
			text, _ := os.ReadFile(file)
			return len(text)
		}
}

// A test that did not end has noticed nothing, as a busy machine does the same: it is repeated once
// and then counts neither way. The packages that follow are still asked.
func TestTimeIsNoKiller(t *testing.T) {
	t.Parallel()
	for then, want := range map[string]struct {
		fate fate
		runs int
	}{
		"if noticed { time.Sleep(time.Hour) }":                                    {timedOut, 3},
		"if noticed { p, _ := os.FindProcess(os.Getpid()); p.Kill(); select {} }": {timedOut, 3},
		"if noticed && run == 2 { t.Error(`waited 5s for: a row`) }":              {survived, 3},
		"if noticed { t.Error(`context deadline exceeded`) }":                     {killed, 3},
		"if noticed { t.Error(`wrong`) }":                                         {killed, 2},
		"if noticed { go panic(`wrong`); select {} }":                             {killed, 2},
	} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			test, runs := runsOf(t, then)
			root := module(t, source, test)
			all := mutantsOfSource(t, root, "./p")
			i := slices.IndexFunc(all, func(m mutant) bool { return m.after == "n <= limit" })
			limit := time.Minute
			if want.fate == timedOut {
				limit = 2 * time.Second
			}
			o := options{root: root, covered: []string{"./p"}, limit: limit, budget: time.Minute}
			r, err := newTestedTester(t, o, all, io.Discard).tryOne(t.Context(), all[i])
			if err != nil || r.fate != want.fate || runs() != want.runs {
				t.Errorf("%v: %q by %q after %d runs, the one without a change among them", err, r.fate, r.note, runs())
			}
		})
	}
	s := newScore(0)
	s.add(result{fate: timedOut})
	s.add(result{fate: killed})
	if err := s.report(io.Discard); err != nil || s.percent() != 100 || s.viable() != 1 {
		t.Error(err, s)
	}
}

// What fails twice without any change is no killer: it is not asked. The tests that no mutant is
// brought to are not run at all.
func TestBaselineMustPass(t *testing.T) {
	t.Parallel()
	o := options{covered: []string{"./p"}, limit: time.Minute, budget: time.Minute}
	for then, want := range map[string]string{
		"t.Error(`far from the limit`)":                            "TestRuns of ./p fails without any change: it is not asked",
		"if run == 1 { t.Error(`once`) }; if noticed { t.Fail() }": "",
	} {
		test, runs := runsOf(t, then)
		o.root = module(t, source, test)
		all := mutantsOfSource(t, o.root, "./p", "./none")
		i := slices.IndexFunc(all, func(m mutant) bool { return m.after == "n <= limit" })
		var out strings.Builder
		err := try(t.Context(), o, all, all[i:i+1], 0, &out)
		if want == "" && (err != nil || runs() != 3) || want != "" && (err == nil || !strings.Contains(out.String(), want)) {
			t.Errorf("%v after %d runs\n%s", err, runs(), out.String())
		}
	}
}

// A mutant is brought to the tests that run its line, or that run what uses the constant, the
// fastest first. What they cover is kept as long as the code is the same.
func TestCoveringTests(t *testing.T) {
	t.Parallel()
	root := module(t, `package p

const (
	unused = 3
	step   = 5
	limit  = 2 * step
)

func Limited(n int) bool { return n > limit }

func Sign(n int) int {
	switch {
	case n > 0:
		return 1
	}
	return 0
}

func Never(n int) bool { return n > 7 }
`, `package p

import (
	"testing"
	"time"
)

func TestSlow(t *testing.T) {
	time.Sleep(300 * time.Millisecond)
	if Limited(limit) || !Limited(limit+1) {
		t.Error("limit")
	}
}

func TestQuick(t *testing.T) {
	if Limited(1) {
		t.Error("1")
	}
}

func TestSign(t *testing.T) {
	if Sign(1) != 1 {
		t.Error("1")
	}
}
`)
	o := options{root: root, covered: []string{"./p"}, limit: time.Minute}
	var out strings.Builder
	for _, ran := range []string{"3, of which 3 were run", "3, of which 0 were run"} {
		all := mutantsOfSource(t, root, "./p")
		c, err := newTestedTester(t, o, all, &out).coverage(t.Context(), "./p")
		if err != nil || !strings.Contains(out.String(), ran) {
			t.Fatal(err, out.String())
		}
		got := map[string]string{}
		for _, m := range all {
			got[m.before] = only(c.covering(m))
		}
		if want := map[string]string{
			"3": "^()$", "5": "^(TestQuick|TestSlow)$", "2": "^(TestQuick|TestSlow)$", "n > limit": "^(TestQuick|TestSlow)$",
			"n > 0": "^(TestSign)$", "0": "^(TestSign)$", "n > 7": "^()$", "7": "^()$",
		}; !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
	}
	left := 7 * time.Second
	groups, slower := groupsOf([]timed{{"A", 0.5}, {"B", 0.6}, {"C", 3}, {"D", 2}, {"E", 30}}, &left)
	if fmt.Sprint(groups, slower, left) != "[[{A 0.5} {B 0.6} {C 3}] [{D 2}]] 1 900ms" {
		t.Error(groups, slower, left)
	}
}

// A run whose time is up ends at once, with the score of what was tried.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	test, runs := runsOf(t, "if run > 2 { time.Sleep(time.Hour) }; if noticed { t.Fail() }")
	root := module(t, source, test)
	all := mutantsOfSource(t, root, "./p")
	i := slices.IndexFunc(all, func(m mutant) bool { return m.after == "n <= limit" })
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	go func() {
		for runs() < 3 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		stop(errNoTime)
	}()
	var out strings.Builder
	begin := time.Now()
	o := options{root: root, covered: []string{"./p"}, limit: 10 * time.Minute, budget: time.Minute, minutes: 10}
	if err := try(ctx, o, all, []mutant{all[i], all[i-1]}, 0, &out); err != nil || time.Since(begin) > 5*time.Minute ||
		!strings.Contains(out.String(), "ended after 1 of 2 mutants: the time is up\nscore: 100.0 % (1 killed,") {
		t.Errorf("%v\n%s", err, out.String())
	}
	o.minutes = 1e-9
	if err := try(t.Context(), o, all, all, 0, &out); err == nil || !strings.Contains(err.Error(), "no mutant was tried") {
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

// The tree has mutants of each kind, and nothing is excused that is not among them.
func TestKindsOfTheTree(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	all, err := mutantsOf(root, targets)
	if err != nil {
		t.Fatal(err)
	}
	ex, err := readExcuses("excused.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ex.unused(all) {
		t.Errorf("excused.txt excuses what is no mutant any more; take it out, or excuse what it became: %s", name)
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

// Two packages may call their statements alike: each becomes a variable, and so does what is made
// of it.
func TestStatementsOfOneName(t *testing.T) {
	t.Parallel()
	statements := "\nconst rowsSQL = `SELECT id FROM work WHERE id = $1` + listSQL\n\nconst listSQL = `\n\tAND due_at <= $2`\n\nfunc SQL() string { return rowsSQL }\n"
	o := options{root: module(t, source+statements, weakTest), covered: []string{"./p", "./q"}, limit: time.Minute, jobs: 2}
	for name, text := range map[string]string{"q.go": "package q\n" + statements, "q_test.go": "package q\n\nimport \"testing\"\n\nfunc TestSQL(t *testing.T) { SQL() }\n"} {
		path := filepath.Join(o.root, "q", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := mutantsOf(o.root, []target{{"p", []string{"./p"}}, {"q", []string{"./q"}}})
	if err != nil {
		t.Fatal(err)
	}
	newTestedTester(t, o, all, io.Discard)
}

// Mistakes that do not compile beside the others ask the tests that run their function: what is
// assigned is noticed, and what does not compile by itself is no survivor.
func TestApartInAFunction(t *testing.T) {
	t.Parallel()
	root := module(t, `package p

type sum int

func (s sum) IsPositive() bool { return s > 0 }

// Sides are those of a line.
type Sides struct{ Credit, Debit sum }

// Line is one of a sum.
func Line(s sum) (l Sides) {
	if s.IsPositive() {
		l.Credit = s
	}
	return l
}
`, "package p\n\nimport \"testing\"\n\nfunc TestLine(t *testing.T) {\n\tif l := Line(2); l.Credit != 2 {\n\t\tt.Error(l)\n\t}\n}\n")
	all := mutantsOfSource(t, root, "./p")
	o := options{root: root, covered: []string{"./p"}, limit: time.Minute, budget: time.Minute, jobs: 2}
	tester := newTestedTester(t, o, all, io.Discard)
	want := map[string]fate{"Credit": killed, "IsPositive": stillbirth}
	for _, m := range all {
		if fate, ok := want[m.before]; ok {
			if r, err := tester.tryOne(t.Context(), m); err != nil || r.fate != fate || !tester.schema.apart[m.id] {
				t.Errorf("%s: %s %s, %v", m.key(), r.fate, r.note, err)
			}
			delete(want, m.before)
		}
	}
	if len(want) > 0 {
		t.Errorf("no mutants of %v", want)
	}
}
