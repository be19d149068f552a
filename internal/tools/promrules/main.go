// Command promrules tests Prometheus rules with Prometheus's own engine. It reads what promtool
// reads (rule files, and unit tests with input_series and promql_expr_test, as in
// deploy/prometheus), and is built in a sixth of promtool's time.
//
//	promrules test rules_test.yaml
//	promrules fires rules.yaml AlertName scrape…
//
// The first runs the tests, and fails when an alert has no test in which it fires, or none in which
// it does not. The second tells whether an alert is pending or firing as of the newest of some
// scrapes, each in a file named <unix ms>-<instance>.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "test":
		err = test(args[1])
	case len(args) > 3 && args[0] == "fires":
		err = fires(args[1], args[2], args[3:])
	default:
		fmt.Fprintln(os.Stderr, "usage: promrules test rules_test.yaml | promrules fires rules.yaml AlertName scrape…")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promrules:", err)
		os.Exit(1)
	}
}

var promqlParser = parser.NewParser(parser.Options{})

// world is a set of series and the rules over them.
type world struct {
	*promqltest.LazyLoader
	groups []*rules.Group
}

// newWorld takes series as promqltest's load command has them, from start on; its owner closes it.
func newWorld(load string, start time.Time, interval time.Duration, ruleFiles ...string) (*world, error) {
	l, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, StartTime: start})
	if err != nil {
		return nil, err
	}
	l.SubqueryInterval = interval
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(l.QueryEngine(), l.Storage()), Appendable: l.Storage(), Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: promqlParser,
	})
	byKey, errs := m.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, ruleFiles...)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	w := &world{LazyLoader: l}
	for _, g := range byKey {
		w.groups = append(w.groups, g)
	}
	// Recorded series come before the alerts that use them: groups are taken in the order of their
	// names in the file.
	slices.SortFunc(w.groups, func(a, b *rules.Group) int { return recordings(b) - recordings(a) })
	for _, a := range w.alerts() {
		a.SetRestored(true) // or it would not show its state as a series
	}
	return w, nil
}

func recordings(g *rules.Group) (n int) {
	for _, r := range g.Rules() {
		if _, ok := r.(*rules.RecordingRule); ok {
			n++
		}
	}
	return n
}

func (w *world) alerts() (all []*rules.AlertingRule) {
	for _, g := range w.groups {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok {
				all = append(all, a)
			}
		}
	}
	return all
}

// eval evaluates all rules as of a time.
func (w *world) eval(at time.Time) (err error) {
	w.WithSamplesTill(at, func(failed error) {
		if err = failed; err != nil {
			return
		}
		for _, g := range w.groups {
			g.Eval(w.Context(), at)
			for _, r := range g.Rules() {
				if r.LastError() != nil && err == nil {
					err = fmt.Errorf("rule %s: %w", r.Name(), r.LastError())
				}
			}
		}
	})
	return err
}

// under makes paths of a file relative to that file's folder.
func under(file string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Join(filepath.Dir(file), p)
	}
	return out
}
