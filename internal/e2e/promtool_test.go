package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// samples are what scrapes have shown: by series, by second, as Prometheus writes a number.
type samples struct {
	first, last int64 // seconds since 1970; 0: none yet
	values      map[string]map[int64]string
}

// add takes the samples of Ajo's own metrics in the scrape of an instance, with the instance as a
// label, and adds up{job="ajo"}. An empty text is a scrape that was not answered.
func (s *samples) add(at time.Time, instance, text string) {
	second := at.Unix()
	if s.values == nil {
		s.first, s.values = second, map[string]map[int64]string{}
	}
	s.last = max(s.last, second)
	put := func(series, value string) {
		if s.values[series] == nil {
			s.values[series] = map[int64]string{}
		}
		s.values[series][second] = value
	}
	up := "0"
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "ajo_") {
			continue
		}
		up = "1"
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:i], "}"), "{")
		if labels != "" {
			labels = "," + labels
		}
		put(fmt.Sprintf("%s{instance=%q%s}", name, instance, labels), line[i+1:])
	}
	put(fmt.Sprintf("up{job=%q,instance=%q}", "ajo", instance), up)
}

// promtoolSeries is a series of a promtool test: a value a second.
type promtoolSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// series gives each sample its second, with gaps between. promtool begins in 1970, so timestamps
// are moved there too: their difference to time(), which is all that rules use, stays.
func (s *samples) series(t testing.TB) (all []promtoolSeries) {
	t.Helper()
	for name, values := range s.values {
		metric, _, _ := strings.Cut(name, "{")
		isTime := strings.HasSuffix(metric, "_timestamp_seconds")
		var b strings.Builder
		for second := s.first; second <= s.last; second++ {
			value, ok := values[second]
			if !ok {
				value = "_"
			} else if isTime {
				at, err := strconv.ParseFloat(value, 64)
				require.NoError(t, err)
				value = strconv.FormatFloat(at-float64(s.first), 'f', -1, 64)
			}
			b.WriteString(value + " ")
		}
		all = append(all, promtoolSeries{name, b.String()})
	}
	return all
}

// fires reports whether the alert's expression holds as of the newest scrape, whatever its "for"
// says, and what promtool has to say.
func (s *samples) fires(t testing.TB, dir, rules, alert string) (string, bool) {
	t.Helper()
	all, err := os.ReadFile(rules)
	require.NoError(t, err)
	require.Contains(t, string(all), "- alert: "+alert+"\n")
	// All, in the file's order: promtool puts a group that is not named here beside the first.
	var groups []string
	for _, m := range regexp.MustCompile(`(?m)^  - name: (\S+)$`).FindAllStringSubmatch(string(all), -1) {
		groups = append(groups, m[1])
	}
	require.Equal(t, "ajo-recording", groups[0])
	end := fmt.Sprintf("%ds", s.last-s.first)
	test, err := json.Marshal(map[string]any{ // JSON is YAML
		"rule_files": []string{rules}, "group_eval_order": groups,
		// at the beginning and at the end
		"evaluation_interval": fmt.Sprintf("%ds", max(1, s.last-s.first)),
		"tests": []any{map[string]any{
			"interval": "1s", "input_series": s.series(t),
			"promql_expr_test": []any{map[string]any{"expr": fmt.Sprintf("ALERTS{alertname=%q}", alert), "eval_time": end, "exp_samples": []any{}}},
		}},
	})
	require.NoError(t, err)
	file := filepath.Join(dir, alert+".yaml")
	require.NoError(t, os.WriteFile(file, test, 0o600))
	out, err := exec.Command(os.Getenv("AJO_PROMTOOL"), "test", "rules", file).CombinedOutput()
	fires := strings.Contains(string(out), `got: {__name__="ALERTS", alertname="`+alert+`"`)
	require.Equal(t, fires, err != nil, "promtool neither finds the alert nor misses it: %s", out)
	return strings.TrimSpace(string(out)), fires
}
