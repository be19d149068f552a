package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/customer"
	"ajo/internal/fakebank"
	"ajo/internal/fsm"
	"ajo/internal/payment"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/ledger"
)

func states[S, E ~string](t fsm.Table[S, E]) (all []string) {
	for _, s := range t.States() {
		all = append(all, string(s))
	}
	return all
}

// walked are the states of the machines, by the word with which a row of the walk begins.
var walked = map[string][]string{
	"entry":          states(ledger.Transitions),
	"event":          states(payment.Transitions),
	"recall":         states(payment.RecallTransitions),
	"delivery":       states(webhook.Transitions),
	"account":        states(account.Transitions),
	"transfer":       states(transfer.Transitions),
	"customer's KYC": states(customer.KYCTransitions),
	"tenant's KYC":   states(tenant.KYCTransitions),
	"hold":           states(ledger.HoldTransitions),
}

// What may never change again is answered in docs/operations.md for each state of each machine, and
// the tests that it names run the commands that it names.
func TestWalkIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, walk, found := strings.Cut(string(text), "\n## What if a state never changes again?\n")
	require.True(t, found)
	walk, _, _ = strings.Cut(walk, "\n## ")

	tests, tables := testSources(t)
	require.Len(t, tables, len(walked), "machines of the program: %v", tables)
	seen := map[string][]string{}
	for line := range strings.Lines(walk) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| state |") {
			require.False(t, strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| state |"), "four columns: %s", line)
			continue
		}
		state, commands, named := strings.TrimPrefix(cells[0], "| "), cells[2], codes(cells[3])
		for noun, all := range walked {
			rest, ok := strings.CutPrefix(state, noun+" `")
			if !ok {
				continue
			}
			of := slices.DeleteFunc(codes("`"+rest), func(s string) bool { return !slices.Contains(all, s) })
			require.NotEmpty(t, of, "no state of %v: %s", all, line)
			seen[noun] = append(seen[noun], of...)
		}
		var source strings.Builder
		for _, name := range named {
			require.Contains(t, tests, name, line)
			source.WriteString(tests[name])
		}
		for _, word := range commandWords(commands) {
			runs := regexp.MustCompile(`"[^"\n]*` + regexp.QuoteMeta(word) + `\b`)
			require.True(t, runs.MatchString(source.String()), "%v run no %q: %s", named, word, line)
		}
	}
	for noun, all := range walked {
		slices.Sort(seen[noun])
		require.ElementsMatch(t, all, slices.Compact(seen[noun]), "rows of the walk: %s", noun)
	}
}

// codes are the words in backticks.
func codes(s string) (all []string) {
	for _, m := range inBackticks.FindAllStringSubmatch(s, -1) {
		all = append(all, m[1])
	}
	return all
}

// commandWords are the names of commands and flags in a cell.
func commandWords(cell string) (words []string) {
	for _, code := range codes(cell) {
		for _, word := range strings.Fields(placeholder.ReplaceAllString(strings.TrimPrefix(code, "ajo "), "")) {
			if regexp.MustCompile(`^(--)?[a-z-]+$`).MatchString(word) {
				words = append(words, word)
			}
		}
	}
	return words
}

// testSources are the program's test functions with their text, and the names of the machines that
// the program makes. Functions that a test of this package calls on its desk count as its own text.
func testSources(t *testing.T) (tests map[string]string, tables []string) {
	t.Helper()
	tests = map[string]string{}
	helpers := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^var \w+ = fsm\.New\("([^"]+)"`).FindAllSubmatch(text, -1) {
				tables = append(tables, string(m[1]))
			}
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			body := string(text[files.Position(f.Pos()).Offset:files.Position(f.End()).Offset])
			switch {
			case f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test"):
				tests[f.Name.Name] = body
			case f.Recv != nil && file.Name.Name == "main":
				helpers["."+f.Name.Name+"("] = body
			}
		}
		return nil
	})
	require.NoError(t, err)
	for name, body := range tests {
		for _, call := range slices.Sorted(maps.Keys(helpers)) {
			if strings.Contains(body, "o"+call) || strings.Contains(body, "c"+call) {
				tests[name] += helpers[call]
			}
		}
	}
	return tests, tables
}

// A payment whose event was believed, and which the bank then took back for good, was of another
// sum.
func TestReviewCorrectOfAReversedPayment(t *testing.T) {
	o := setup(t)
	id := o.event(o.account.String())
	o.move(id, ledger.Credit, ledger.EventReverse)
	o.Exec(`DELETE FROM work WHERE id = $1`, id)
	correct := []string{"review", "correct", id.String(), "--amount", "4000.00", "--fee", "25.00", "--yes", "--reason", "the bank's letter"}
	_, said, err := o.run(correct...)
	require.NoError(t, err)
	require.Contains(t, said, "NGN 3975.00 (4000.00 less the fee of 25.00) counts in its place")
	o.lastAudit("review.correct", "event:"+id.String(), "the bank's letter")
	require.Equal(t, "3975.00", o.balance())
	_, _, err = o.run(correct...)
	require.EqualError(t, err, "the payment does not need review")
	o.booksAgree()
}

// balance is the account's.
func (o *ops) balance() string {
	o.T.Helper()
	return testenv.Value[string](o.Env, `SELECT balance::numeric(20, 2)::text FROM ledger_balances WHERE account_id = $1`, o.account)
}

// A transfer is resolved in every state in which the bank may contradict the books, and back.
func TestResolveInEveryState(t *testing.T) {
	o := setup(t)
	ref, id := o.transfer("processing")
	require.Equal(t, "3725.00", o.balance())
	for _, step := range []struct {
		from    transfer.Status
		args    []string
		to      transfer.Status
		balance string
	}{
		{transfer.Processing, []string{"--not-paid"}, transfer.Failed, "4975.00"},
		{transfer.Failed, []string{"--not-paid"}, transfer.Failed, "4975.00"},
		{transfer.Failed, []string{"--paid"}, transfer.Success, "3725.00"},
		{transfer.Success, []string{"--paid"}, transfer.Success, "3725.00"},
		{transfer.Success, []string{"--paid", "--amount", "1000.00"}, transfer.Success, "3975.00"},
		{transfer.Success, []string{"--not-paid"}, transfer.Refunded, "4975.00"},
		{transfer.Refunded, []string{"--not-paid"}, transfer.Refunded, "4975.00"},
		{transfer.Refunded, []string{"--paid"}, transfer.Success, "3725.00"},
	} {
		require.Equal(t, step.from, decode[transfer.Detail](o, "transfers", "show", ref).Status)
		o.Exec(`UPDATE transfers SET difference = 'the bank says otherwise', differs_since = $2 WHERE id = $1`, id, o.Clock.Now())
		o.good(append([]string{"transfers", "resolve", ref, "--yes", "--reason", "the bank's letter"}, step.args...)...)
		o.lastAudit("transfers.resolve", "transfer:"+ref, "the bank's letter")
		require.Equal(t, step.to, decode[transfer.Detail](o, "transfers", "show", ref).Status, "%+v", step)
		require.Equal(t, step.balance, o.balance(), "%+v", step)
		require.Equal(t, "none\n", o.good("transfers", "list", "--differing"), "%+v", step)
		o.booksAgree()
	}
}

// A payment that was held since it looks like another is posted by an operator's word, or its
// report dismissed.
func TestLookAlikeCommands(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"repost", "dismiss"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t)
			bankSettings(c.env, c.bank.URL())
			first, second := c.txn, c.paid()
			for _, id := range []string{first.ID, second.ID} {
				c.bank.SetTransaction(id, func(x *fakebank.Transaction) { x.SessionID, x.Time = "", first.Time })
			}
			posted := c.unposted(first)
			_, stderr, code := toolRun(t, c.env, "events", "repost", posted.String(), "--yes", "--reason", "the bank has it")
			require.Zero(t, code, stderr)
			c.bank.SetTransaction(first.ID, func(x *fakebank.Transaction) { x.Hidden = true }) // a list with both would tell
			out, _, code := toolRun(t, c.env, "reconcile", "--from", "2h")
			require.Equal(t, 1, code)
			require.Contains(t, out, "look_alike")
			held := testenv.Value[uuid.UUID](c.Env, `SELECT id FROM inbound_events WHERE look_alike_of = $1`, posted)

			want := "4975.00"
			if end == "dismiss" {
				_, stderr, code = toolRun(t, c.env, "reconcile", "dismiss", second.ID, "--yes", "--reason", "it is the same")
			} else {
				want = "9950.00"
				_, stderr, code = toolRun(t, c.env, "events", "repost", held.String(), "--yes", "--reason", "it is another")
				require.Contains(t, stderr, "If it is the same payment as event "+posted.String()+", the money is credited twice.")
			}
			require.Zero(t, code, stderr)
			require.Equal(t, want, testenv.Value[string](c.Env, `SELECT balance::numeric(20, 2)::text FROM ledger_balances WHERE account_id = $1`, c.account))
			out, _, _ = toolRun(t, c.env, "reconcile", "--from", "2h")
			require.NotContains(t, out, "look_alike")
		})
	}
}

// docs/attacks.md has a row for every point of the attack, and the tests that it names exist.
func TestAttacksNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/attacks.md")
	require.NoError(t, err)
	tests, _ := testSources(t)
	named := regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(string(text), -1)
	require.Greater(t, len(named), 100)
	for _, name := range named {
		_, is := tests[name]
		require.True(t, is, name)
	}
	for n := range 47 {
		require.Contains(t, string(text), fmt.Sprintf("\n| %d |", n))
	}
}
