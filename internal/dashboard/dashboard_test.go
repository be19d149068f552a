package dashboard

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/sandbox"
	"ajo/internal/tenant"
)

var (
	imported = regexp.MustCompile(`(?m)^(?:import|export) [^;]*?from '([^']*)';`)
	anyOther = regexp.MustCompile(`https?://[^'"\s]*`)
	names    = regexp.MustCompile(`(?m)^import \{ ([^}]*) \}|^(?:export )?(?:async )?(?:function|const|let) ([A-Za-z]+)`)
	linked   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
)

// A page that breaks these rules would work in a careless browser, and break, or be broken into,
// elsewhere.
func TestFilesKeepTheRules(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, f := range Files() {
		there[f.Name] = true
	}
	require.True(t, there[Page] && there[Style])
	for _, f := range Files() {
		text := string(f.Body)
		require.Less(t, strings.Count(text, "\n"), 420, "%s is two things", f.Name)
		for _, url := range anyOther.FindAllString(text, -1) {
			require.Contains(t, []string{"http://www.w3.org/2000/svg", "https://shop.example/ajo/hook"}, url, "%s: another host", f.Name)
		}
		switch f.Name {
		case Page:
			for _, never := range []string{"<style", "style=", "javascript:", "<base"} {
				require.NotContains(t, text, never)
			}
			require.NotRegexp(t, ` on[a-z]+=`, text, "a handler in the page")
			require.NotRegexp(t, `<script(>| [^>]*>[^<])`, text, "a script in the page")
			for _, m := range linked.FindAllStringSubmatch(text, -1) {
				if name, ours := strings.CutPrefix(m[1], "/dashboard/"); ours {
					require.True(t, there[name], m[1])
				} else {
					require.Regexp(t, `^(#|/docs$|data:image/svg\+xml,)`, m[1])
				}
			}
		case Style:
			require.NotRegexp(t, `url\(|@import`, text)
		default:
			for _, m := range imported.FindAllStringSubmatch(text, -1) {
				name, beside := strings.CutPrefix(m[1], "./")
				require.True(t, beside && there[name], "%s imports %s", f.Name, m[1])
			}
			declared := map[string]bool{}
			for _, m := range names.FindAllStringSubmatch(text, -1) {
				for _, name := range strings.Split(m[1]+m[2], ", ") {
					require.False(t, declared[name], "%s declares %s twice, and is not run at all", f.Name, name)
					declared[name] = true
				}
			}
			require.NotRegexp(t, `\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|DOMParser|setHTMLUnsafe|new Function)\b`, text,
				"%s: data must only become text", f.Name)
			require.NotRegexp(t, `\b(parseFloat|toFixed)\b`, text, "%s: money is no float", f.Name)
		}
	}
}

// The form of a test payment offers the faults that there are.
func TestFaultsAreOffered(t *testing.T) {
	t.Parallel()
	body, err := static.ReadFile("static/testpayment.js")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(body), "export const faults = {")
	list, _, _ = strings.Cut(list, "};")
	var offered []sandbox.Fault
	for _, m := range regexp.MustCompile(`([a-z_]+): '`).FindAllStringSubmatch(list, -1) {
		offered = append(offered, sandbox.Fault(m[1]))
	}
	require.Equal(t, sandbox.Faults, offered)
}

// The pages name scopes and roles; one that is added must be offered there too.
func TestScopesAndRolesAreOffered(t *testing.T) {
	t.Parallel()
	for file, part := range map[string]string{"keys.js": "export const scopes = {", "members.js": "export const roles = {"} {
		body, err := static.ReadFile("static/" + file)
		require.NoError(t, err)
		_, list, found := strings.Cut(string(body), part)
		require.True(t, found, file)
		list, _, _ = strings.Cut(list, "\n}")
		list, _, _ = strings.Cut(list, " };")
		var named, want []string
		for _, m := range regexp.MustCompile(`(?m)(?:^|[{,] ?|^ *)'?([a-z:]+)'?: '`).FindAllStringSubmatch(list, -1) {
			named = append(named, m[1])
		}
		for _, s := range tenant.Scopes {
			want = append(want, string(s))
		}
		if file == "members.js" {
			want = nil
			for _, r := range tenant.Roles {
				want = append(want, string(r))
			}
		}
		require.Equal(t, want, named, file)
	}
}

// written finds an act that is written into the log of a tenant, by its name.
var written = regexp.MustCompile(`\.Entry\("([a-z._-]+)",(?:[^;.]|\.[^E]|\.E[^n])*?\)\.Of\(`)

// The page of the audit log names whatever is written into tenants' logs, and so offers to look for
// it.
func TestActsAreNamed(t *testing.T) {
	t.Parallel()
	body, err := static.ReadFile("static/audit.js")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(body), "const acts = {")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n};")
	// those whose name is made of parts
	acts := []string{"freeze.account", "freeze.tenant", "kyc.approve", "customers.activate", "tenant.suspend", "transfer.approve", "transfer.settle", "beneficiary.exempt"}
	internal := os.DirFS("..")
	require.NoError(t, fs.WalkDir(internal, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(internal, path)
		for _, m := range written.FindAllSubmatch(source, -1) {
			acts = append(acts, string(m[1]))
		}
		return err
	}))
	require.Greater(t, len(acts), 45)
	for _, act := range acts {
		require.Contains(t, list, "'"+act+"': '")
	}
}
