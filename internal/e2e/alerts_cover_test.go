package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// said is what the tests of alerts say, by their source: an alert's name, and what follows it.
type said struct {
	test   string
	method string   // must, follow …
	texts  []string // the texts among the arguments
}

// alertTests reads the calls in the tests of alerts whose arguments are texts.
func alertTests(t *testing.T) (all []said) {
	t.Helper()
	files, err := filepath.Glob("alerts_*test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "TestAlerts") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if method, ok := call.Fun.(*ast.SelectorExpr); ok {
						all = append(all, said{fn.Name.Name, method.Sel.Name, texts(call.Args)})
					}
				}
				return true
			})
		}
	}
	return all
}

func texts(args []ast.Expr) (all []string) {
	for _, a := range args {
		if l, ok := a.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// Every alert of the rules is provoked by a test, which is the one that docs/operations.md names.
func TestEveryAlertIsProvoked(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	operations, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	var alerts []string
	for _, m := range regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	provoked := map[string][]string{} // by alert: the tests
	for _, s := range alertTests(t) {
		if s.method == "must" {
			for _, name := range s.texts {
				require.Contains(t, alerts, name, "%s provokes an alert that the rules do not have", s.test)
				provoked[name] = append(provoked[name], s.test)
			}
		}
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (Ajo\\w+) \\| `(\\w+)` \\|").FindAllStringSubmatch(string(operations), -1) {
		require.Empty(t, rows[m[1]], "%s stands twice in docs/operations.md", m[1])
		rows[m[1]] = m[2]
	}
	for _, name := range alerts {
		require.NotEmpty(t, provoked[name], "no test provokes %s", name)
		require.Contains(t, provoked[name], rows[name], "docs/operations.md says that %s is provoked by %q", name, rows[name])
	}
	require.Len(t, rows, len(alerts), "docs/operations.md")
}

// Every alert has a unit test in which it fires, and one in which it never does.
func TestEveryAlertHasUnitTests(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	text, err := os.ReadFile("../../deploy/prometheus/rules_test.yaml")
	require.NoError(t, err)
	var file struct {
		Tests []struct {
			Expectations []struct {
				Expr    string `yaml:"expr"`
				Samples []any  `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	named := regexp.MustCompile(`alertname="(\w+)"`)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		expected := map[string]bool{} // by alert: whether it fires at some time
		for _, e := range test.Expectations {
			if m := named.FindStringSubmatch(e.Expr); m != nil {
				expected[m[1]] = expected[m[1]] || len(e.Samples) > 0
			}
		}
		for name, fired := range expected {
			fires[name], quiet[name] = fires[name] || fired, quiet[name] || !fired
		}
	}
	alerts := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, m := range alerts {
		require.True(t, fires[m[1]], "no unit test in which %s fires", m[1])
		require.True(t, quiet[m[1]], "no unit test in which %s stays quiet", m[1])
	}
}

// Every command of an alert's paragraph in the runbook is run, as it stands there, by a test that
// has provoked the alert.
func TestEveryCommandOfTheRunbookIsRun(t *testing.T) {
	t.Parallel()
	run := map[string][]string{} // by alert: how its commands begin
	for _, s := range alertTests(t) {
		if slices.Contains([]string{"follow", "followTo", "followOn"}, s.method) {
			require.GreaterOrEqual(t, len(s.texts), 2, "%s names alert and command of %s otherwise than as texts", s.test, s.method)
			run[s.texts[0]] = append(run[s.texts[0]], s.texts[1])
		}
	}
	commands := 0
	for alert, p := range readRunbook(t) {
		for _, c := range p.codes {
			if !command.MatchString(c) || untried[alert] == c {
				continue
			}
			commands++
			require.True(t, slices.ContainsFunc(run[alert], func(begin string) bool { return strings.HasPrefix(c, begin) }), "%s: no test runs %s", alert, c)
		}
	}
	require.Greater(t, commands, 40)
}

// untried are commands of the runbook that no test runs, for the reason given.
var untried = map[string]string{
	"AjoRateLimitFallback": `redis-cli -u "$AJO_REDIS_URL" --latency`, // goes on for ever
	// of two, the test's cause needs the other
	"AjoAPISlow": `SELECT pg_cancel_backend(<pid>)`,
	// as AjoTransferOutcomeUnknown has it
	"AjoBankFailing": `ajo transfers show`,
}
