package testenv

import (
	"strings"
	"testing"

	"ajo/internal/metrics"
)

// Metric reads a counter of this process, by the values of its labels; it is empty where there is
// none of the name.
func Metric(t testing.TB, name string) map[string]int {
	t.Helper()
	all, err := metrics.Gatherer().Gather()
	must(t, err)
	values := map[string]int{}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, " ")] = int(m.GetCounter().GetValue())
		}
	}
	return values
}
