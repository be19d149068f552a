package dashboard

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	imported = regexp.MustCompile(`(?m)^(?:import|export) [^;]*?from '([^']*)';`)
	anyOther = regexp.MustCompile(`https?://[^'"\s]*`)
	linked   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
)

// A page that breaks these rules would work in a careless browser, and break, or be broken into,
// elsewhere.
func TestFilesKeepTheRules(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range Files() {
		names[f.Name] = true
	}
	require.True(t, names[Page] && names[Style])
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
					require.True(t, names[name], m[1])
				} else {
					require.Regexp(t, `^(#|/docs$|data:image/svg\+xml,)`, m[1])
				}
			}
		case Style:
			require.NotRegexp(t, `url\(|@import`, text)
		default:
			for _, m := range imported.FindAllStringSubmatch(text, -1) {
				name, beside := strings.CutPrefix(m[1], "./")
				require.True(t, beside && names[name], "%s imports %s", f.Name, m[1])
			}
			require.NotRegexp(t, `\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|DOMParser|setHTMLUnsafe|new Function)\b`, text,
				"%s: data must only become text", f.Name)
			require.NotRegexp(t, `\b(parseFloat|toFixed)\b`, text, "%s: money is no float", f.Name)
		}
	}
}
