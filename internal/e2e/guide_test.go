package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands of "The first payment by hand" in the README, and after them those of the guide that
// call the API, run as they are written, in one shell, and every call is answered 2xx. Only the
// addresses differ, and each sleep waits until what it is there for has happened. The commands of
// test mode need a sandbox, and are left out: TestSandbox makes those calls. The tenant's id, which
// the e-mail shows beside the code, is random: it may begin with six digits.
func TestCommandsOfTheGuide(t *testing.T) {
	for _, name := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is missing", name) // which make test says beforehand
		}
	}
	commands := shellBlocks(t, "../../README.md", "## The first payment by hand")[:1]
	guide := shellBlocks(t, "../../docs/guide.md", "## Before you copy the commands below")
	require.Greater(t, len(guide), 15)
	commands = append(commands, slices.DeleteFunc(guide, func(block string) bool { return strings.Contains(block, "TEST_KEY") })...)

	w := newWorld(t)
	w.settings["AJO_MAIL_DIR"] = filepath.Join(w.dir, ".ajo", "mail")
	w.startAPI()
	w.startWorker("")
	script := strings.Join(commands, "\n")
	for written, here := range map[string]string{
		"http://127.0.0.1:8080": w.apiURL, "http://127.0.0.1:8090": w.bank.URL(),
		"bin/ajo trigger payment": ajo + " trigger payment --api " + w.apiURL + " --bank " + w.bank.URL(),
	} {
		require.Contains(t, script, written)
		script = strings.ReplaceAll(script, written, here)
	}
	waits := httptest.NewServer(w.sleeps(t, strings.Count(script, "sleep ")))
	t.Cleanup(waits.Close)

	head := `set -Eeuo pipefail
trap 'echo "refused: $BASH_COMMAND" >&2' ERR
curl() { command curl --fail-with-body --show-error --max-time 60 "$@"; }
sleep() { for _ in $(seq 900); do command curl -fs ` + waits.URL + ` && return; command sleep 0.1; done; return 1; }
`
	cmd := exec.Command("bash", "-c", head+script)
	p := startProgram(t, w.dir, w.with(map[string]string{"PATH": os.Getenv("PATH")}), cmd, []string{"bash", "README.md and docs/guide.md"})
	require.Zero(t, p.exit(), "%s", p.out.tail(3000))
}

// sleeps serves the n waits of the script: 2xx once that for which the next of them waits has
// happened.
func (w *world) sleeps(t *testing.T, n int) http.Handler {
	mailed := func(what string) func() bool {
		return func() bool {
			files, err := filepath.Glob(filepath.Join(w.settings["AJO_MAIL_DIR"], "*.eml"))
			require.NoError(w.t, err)
			return slices.ContainsFunc(files, func(name string) bool {
				b, err := os.ReadFile(name)
				return err == nil && strings.Contains(string(b), what)
			})
		}
	}
	paid := func(payments int) func() bool {
		return func() bool {
			return w.count(`SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND provider_txn_ref <> '' AND status = 'confirmed'`) == payments
		}
	}
	steps := []func() bool{mailed("Your verification code"), paid(1), mailed("You are invited"), paid(2)}
	require.Len(t, steps, n, "each sleep of the script waits for one of these")
	return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { // the script asks one at a time
		if !steps[0]() {
			rw.WriteHeader(http.StatusTooEarly)
			return
		}
		steps = steps[1:]
	})
}

// shellBlocks are the shell commands of a document that call the API, from a heading on.
func shellBlocks(t *testing.T, file, heading string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(b), heading)
	require.True(t, ok, heading)
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "curl ") {
			blocks = append(blocks, m[1])
		}
	}
	return blocks
}
