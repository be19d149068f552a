package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// paragraph is what the runbook says of one alert.
type paragraph struct {
	text  string   // in one line
	codes []string // what stands in backticks
}

// command reports whether a piece of code is a command, or a query, that changes or shows something
// here.
var command = regexp.MustCompile(`^(ajo [a-z]+ .*|ajo migrate|SELECT .*|ANALYZE .*|redis-cli .*|ls .*|du .*|curl .*)$`)

var code = regexp.MustCompile("`([^`]+)`")

// readRunbook reads deploy/runbook.md, by alert.
func readRunbook(t testing.TB) map[string]paragraph {
	t.Helper()
	text, err := os.ReadFile("../../deploy/runbook.md")
	require.NoError(t, err)
	all := map[string]paragraph{}
	for _, part := range regexp.MustCompile(`(?m)^#{2,3} `).Split(string(text), -1)[1:] {
		name, said, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(name, "Ajo") {
			continue
		}
		p := paragraph{text: strings.Join(strings.Fields(said), " ")}
		for _, c := range code.FindAllStringSubmatch(p.text, -1) {
			p.codes = append(p.codes, c[1])
		}
		all[name] = p
	}
	require.NotEmpty(t, all)
	return all
}

// find returns the paragraph's only command that begins so.
func (p paragraph) find(t testing.TB, alert, begin string) string {
	t.Helper()
	var found []string
	for _, c := range p.codes {
		if strings.HasPrefix(c, begin) && command.MatchString(c) {
			found = append(found, c)
		}
	}
	require.Len(t, found, 1, "the runbook's commands for %s that begin with %q", alert, begin)
	return found[0]
}

// follow runs a command of the alert's paragraph as it stands there, which must end well, and
// returns what it printed. The command is named by its beginning; pairs are what an operator fills
// in, as "<event>" and an id.
func (a *alarm) follow(alert, begin string, pairs ...string) string {
	a.t.Helper()
	return a.followTo(0, alert, begin, pairs...)
}

// followTo is follow for a command that ends with another exit code.
func (a *alarm) followTo(exit int, alert, begin string, pairs ...string) string {
	a.t.Helper()
	p := a.begin(alert, begin, pairs)
	got := p.exit()
	require.Equal(a.t, exit, got, "%v: %s", p.args, p.out.all())
	a.t.Logf("%s: %s → %d\n%s", alert, strings.Join(p.args, " "), got, p.out.tail(600))
	return string(p.out.all())
}

// followOn is follow for a worker, which goes on until the test ends.
func (a *alarm) followOn(alert, begin string, pairs ...string) *process {
	a.t.Helper()
	p := a.begin(alert, begin, pairs)
	p.logged("the worker runs")
	return p
}

// begin starts the command in a shell that finds ajo and Postgres' programs, and, of the settings,
// what the runbook's head says that commands need; a worker has them all.
func (a *alarm) begin(alert, begin string, pairs []string) *process {
	a.t.Helper()
	text := strings.NewReplacer(append(pairs, `"…"`, `"incident 4711"`)...).Replace(readRunbook(a.t)[alert].find(a.t, alert, begin))
	require.NotRegexp(a.t, `<[a-z ]+>|…`, text, "something is left to be filled in")
	if strings.Contains(text, "--reason") {
		text += " --yes" // there is no terminal to be asked on
	}
	psql := a.PostgresTool("psql")
	settings := map[string]string{"PATH": filepath.Dir(ajo) + ":" + filepath.Dir(psql) + ":" + os.Getenv("PATH")}
	for name, value := range a.settings {
		if strings.HasPrefix(text, "ajo worker") || needed.MatchString(name) ||
			asksBank.MatchString(text) && strings.HasPrefix(name, "AJO_PROVIDER_") ||
			strings.HasPrefix(text, "ajo archive ") && (strings.HasPrefix(name, "AJO_KEEP_") || strings.HasPrefix(name, "AJO_ARCHIVE_")) {
			settings[name] = value
		}
	}
	cmd := exec.Command("sh", "-c", "exec "+text)
	if sql := regexp.MustCompile(`^(SELECT|ANALYZE) `); sql.MatchString(text) {
		cmd = exec.Command(psql, a.libpqURL(), "-c", text)
	}
	p := startProgram(a.t, a.world.dir, settings, cmd, strings.Fields(text))
	a.procs = append(a.procs, p)
	return p
}

// asksBank are the commands that ask the bank themselves.
var asksBank = regexp.MustCompile(`^ajo (reconcile --from|events repost) `)

var needed = regexp.MustCompile(`^AJO_(DATABASE_URL|REDIS_URL|SPOOL_DIR|OPS_USER|OPS_PASSWORD)$`)

// says checks that a process has logged a line with what the paragraph tells to look for: a part of
// a message, or alert=….
func (a *alarm) says(p *process, alert, part string) {
	a.t.Helper()
	require.Contains(a.t, readRunbook(a.t)[alert].codes, part)
	if name, ok := strings.CutPrefix(part, "alert="); ok {
		part = `"alert":"` + name + `"`
	}
	a.eventually("a log line with "+part, func() bool { return bytes.Contains(p.out.all(), []byte(part)) })
}

// cells are the rows of a table that psql printed, without blanks around.
func cells(table string) (rows [][]string) {
	for line := range bytes.Lines([]byte(table)) {
		if !bytes.Contains(line, []byte("|")) {
			continue
		}
		var row []string
		for _, c := range bytes.Split(line, []byte("|")) {
			row = append(row, string(bytes.TrimSpace(c)))
		}
		rows = append(rows, row)
	}
	return rows[min(1, len(rows)):] // below the head
}

// anID finds the id of a row in a table that a command printed.
var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
