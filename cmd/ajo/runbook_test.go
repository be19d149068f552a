package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
)

var (
	inBackticks = regexp.MustCompile("`([^`]+)`")
	fenced      = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	settingName = regexp.MustCompile(`\bAJO_[A-Z_]+\b`)
	placeholder = regexp.MustCompile(`<[^>]*>|"[^"]*"|…`)
	brackets    = regexp.MustCompile(`[\[\]]`) // around what may be left out
)

// commandLines are the `ajo …` of a document, without what is only filled in.
func commandLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	require.NoError(t, err)
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		for l := range strings.Lines(block[1]) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "ajo ") {
				lines = append(lines, l)
			}
		}
	}
	for _, code := range inBackticks.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		for part := range strings.SplitSeq(strings.Join(strings.Fields(code[1]), " "), "|") {
			if i := strings.Index(part, "ajo "); i == 0 || i > 0 && strings.Contains(part, "xargs -r ajo ") {
				lines = append(lines, part[i:])
			}
		}
	}
	return lines
}

// Every command that the documents name is there, with its flags and as many arguments.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]int{
		"README.md": 15, "deploy/runbook.md": 40, "docs/operations.md": 15, "docs/reliability.md": 1, "docs/decisions.md": 10, "docs/guide.md": 3, "docs/security.md": 2,
	} {
		lines := commandLines(t, path)
		require.GreaterOrEqual(t, len(lines), least, path)
		for _, line := range lines {
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(line, " && ")
			words := strings.Fields(placeholder.ReplaceAllString(brackets.ReplaceAllString(line, ""), "x"))
			root := newRootCmd()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			cmd, rest, err := root.Find(words[1:])
			require.NoError(t, err, "%s: %s", path, line)
			require.True(t, cmd.HasParent(), "%s: %s", path, line)
			for i, w := range rest {
				name, isFlag := strings.CutPrefix(w, "--")
				if !isFlag {
					continue
				}
				flag := cmd.Flags().Lookup(name)
				require.NotNil(t, flag, "%s: %s: there is no --%s", path, line, name)
				takes := flag.NoOptDefVal == ""
				require.False(t, takes && i+1 < len(rest) && strings.HasPrefix(rest[i+1], "--"), "%s: %s: --%s wants a value", path, line, name)
			}
			if args := arguments(cmd.Flags(), rest); len(args) > 0 {
				require.NoError(t, cmd.ValidateArgs(args), "%s: %s", path, line)
			}
		}
	}
}

// The README's table of commands has all that `ajo help` lists.
func TestReadmeNamesEveryCommand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## One binary")
	require.True(t, found)
	table, _, found = strings.Cut(table, "## Settings")
	require.True(t, found)
	root := newRootCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		require.Regexp(t, "`(ajo )?"+cmd.Name()+"[` ]", table)
	}
}

// arguments are the words that are neither flags nor their values.
func arguments(flags *pflag.FlagSet, words []string) (args []string) {
	for i := 0; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag {
			args = append(args, words[i])
		} else if f := flags.Lookup(name); f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return args
}

// Every setting that they name is one, and every message of a log line that the runbook tells to
// look for is logged.
func TestDocumentsNameSettingsAndLogLinesThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, name := range settingName.FindAllString(config.EnvFile(), -1) {
		known[name] = true
	}
	for _, path := range []string{"deploy/runbook.md", "docs/operations.md"} {
		text, err := os.ReadFile("../../" + path)
		require.NoError(t, err)
		for _, name := range settingName.FindAllString(string(text), -1) {
			prefix := strings.TrimSuffix(name, "_")
			found := known[name]
			for k := range known {
				found = found || prefix != name && strings.HasPrefix(k, name)
			}
			require.True(t, found, "%s names %s", path, name)
		}
	}
	source := sources(t)
	runbook, err := os.ReadFile("../../deploy/runbook.md")
	require.NoError(t, err)
	alerts, messages := 0, 0
	for sentence := range strings.SplitSeq(strings.Join(strings.Fields(string(runbook)), " "), ". ") {
		for _, code := range inBackticks.FindAllStringSubmatch(sentence, -1) {
			if name, ok := strings.CutPrefix(code[1], "alert="); ok {
				require.Contains(t, source, `"`+name+`"`, "no log line has %s", code[1])
				alerts++
			}
		}
		for _, m := range regexp.MustCompile("log lines? (?:with )?`([a-zA-Z ]+)`").FindAllStringSubmatch(sentence, -1) {
			require.Contains(t, source, `"`+m[1], "no log line says %q", m[1])
			messages++
		}
	}
	require.GreaterOrEqual(t, alerts, 5)
	require.GreaterOrEqual(t, messages, 6)
}

// A psql that changes rows names its server: after a restore there are two, and the old one's books
// must stay as they are. The head of the page names each kind of SQL that changes something.
func TestRunbookSQLThatChangesNamesItsServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/runbook.md")
	require.NoError(t, err)
	head, page, found := strings.Cut(string(text), "\n### ")
	require.True(t, found)
	changes := 0
	for _, code := range inBackticks.FindAllStringSubmatch(page, -1) {
		sql := strings.Join(strings.Fields(code[1]), " ")
		if m := regexp.MustCompile(`^psql (.*)-c '(?:DELETE|INSERT|UPDATE)`).FindStringSubmatch(sql); m != nil {
			require.Equal(t, `"$AJO_DATABASE_URL" `, m[1], sql)
			require.Contains(t, head, "the restore drill also deletes sessions")
			changes++
		}
		if m := regexp.MustCompile(`^(?:SELECT )?(ANALYZE|pg_[a-z_]+_(?:backend|resume))\b`).FindStringSubmatch(sql); m != nil {
			require.Contains(t, head, "`"+m[1]+"`")
			changes++
		}
	}
	require.GreaterOrEqual(t, changes, 4)
}

// KEDA starts workers that somebody has scaled to none. So where the workers of a queue must stop,
// the documents say how KEDA is paused, and payouts are stopped in the books.
func TestDocumentsStopWhatKEDAStarts(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile("../../" + path)
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(b)), " ")
	}
	require.Contains(t, read("deploy/kubernetes/autoscaling/keda.yaml"), "metadata: name: ajo-worker-settle spec: scaleTargetRef: name: ajo-worker-settle minReplicaCount: 1")
	_, kubernetes, _ := strings.Cut(read("docs/operations.md"), " ## Kubernetes ")
	kubernetes, _, _ = strings.Cut(kubernetes, " ## ")
	require.Contains(t, kubernetes, "scaledobject/ajo-worker-settle autoscaling.keda.sh/paused-replicas=0")
	require.Contains(t, kubernetes, "scaledobject/ajo-worker-settle autoscaling.keda.sh/paused-replicas-")
	runbook := read("deploy/runbook.md")
	require.NotRegexp(t, `kubectl( -\S+( [^-\s]\S*)?)* scale`, runbook)
	_, restore, _ := strings.Cut(runbook, " ## Restore drill ")
	for _, part := range []string{"operations.md#kubernetes", "`ajo freeze payouts ", "`ajo freeze lift "} {
		require.Contains(t, restore, part)
	}
}

// sources is the program's text, without its tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"api", "internal/*", "internal/provider/*", "internal/identity/*", "ledger", "workers", "tasks"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				b, err := os.ReadFile(f)
				require.NoError(t, err)
				all.Write(b)
			}
		}
	}
	return all.String()
}
