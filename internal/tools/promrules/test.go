package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"go.yaml.in/yaml/v3"
)

// suite is a file of unit tests, in promtool's form as far as it is used here.
type suite struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unit         `yaml:"tests"`
}

type unit struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"` // between the samples of input_series
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Exprs []expectation `yaml:"promql_expr_test"`
}

type expectation struct {
	Expr       string         `yaml:"expr"`
	EvalTime   model.Duration `yaml:"eval_time"`
	ExpSamples []struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	} `yaml:"exp_samples"`
}

func test(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s suite
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	begin := time.Now()
	var failed []error
	fired, quiet := map[string]bool{}, map[string]bool{}
	errs := s.runAll(under(path, s.RuleFiles))
	for i, u := range s.Tests {
		err := errs[i]
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", u.Name, err))
		}
		u.note(fired, quiet)
		fmt.Printf("%-6s %s\n", map[bool]string{true: "ok", false: "FAILED"}[err == nil], u.Name)
	}
	w, err := newWorld("load 1m", time.Time{}, time.Minute, under(path, s.RuleFiles)...)
	if err != nil {
		return err
	}
	alerts := w.alerts()
	for _, a := range alerts {
		if !fired[a.Name()] || !quiet[a.Name()] {
			failed = append(failed, fmt.Errorf("%s needs a test in which it fires, and one in which it never does", a.Name()))
		}
	}
	fmt.Printf("%d tests of %d alerts in %s, %d failures\n", len(s.Tests), len(alerts), time.Since(begin).Round(time.Millisecond), len(failed))
	return errors.Join(append(failed, w.Close())...)
}

// runAll runs the tests, as many at once as there are processors.
func (s suite) runAll(ruleFiles []string) []error {
	errs := make([]error, len(s.Tests))
	places := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, u := range s.Tests {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs[i] = u.run(s, ruleFiles)
		})
	}
	all.Wait()
	return errs
}

// run loads the series, evaluates the rules up to the last expectation, and compares.
func (u unit) run(s suite, ruleFiles []string) error {
	load := "load " + u.Interval.String() + "\n"
	for _, in := range u.InputSeries {
		load += "  " + in.Series + " " + in.Values + "\n"
	}
	every := time.Duration(s.EvaluationInterval)
	w, err := newWorld(load, time.Time{}, every, ruleFiles...)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	zero := time.Unix(0, 0).UTC()
	var end time.Duration
	for _, e := range u.Exprs {
		end = max(end, time.Duration(e.EvalTime))
	}
	for at := time.Duration(0); at <= end; at += every {
		if err := w.eval(zero.Add(at)); err != nil {
			return err
		}
	}
	for _, e := range u.Exprs {
		if err := w.expect(e, zero.Add(time.Duration(e.EvalTime))); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) expect(e expectation, at time.Time) error {
	q, err := w.QueryEngine().NewInstantQuery(w.Context(), w.Queryable(), nil, e.Expr, at)
	if err != nil {
		return err
	}
	defer q.Close()
	r := q.Exec(w.Context())
	if r.Err != nil {
		return r.Err
	}
	vector, ok := r.Value.(promql.Vector)
	if !ok {
		return fmt.Errorf("%s is no vector", e.Expr)
	}
	var got, want []string
	for _, v := range vector {
		got = append(got, fmt.Sprintf("%s %g", v.Metric, v.F))
	}
	for _, x := range e.ExpSamples {
		m, err := promqlParser.ParseMetric(x.Labels)
		if err != nil {
			return err
		}
		want = append(want, fmt.Sprintf("%s %g", m, x.Value))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s at %s is %q, not %q", e.Expr, time.Duration(e.EvalTime), got, want)
	}
	return nil
}

// note records which alert the test shows firing, or quiet throughout: by the name in its
// expressions.
func (u unit) note(fired, quiet map[string]bool) {
	expected := map[string]bool{}
	for _, e := range u.Exprs {
		_, rest, ok := strings.Cut(e.Expr, `alertname="`)
		if name, _, _ := strings.Cut(rest, `"`); ok {
			expected[name] = expected[name] || len(e.ExpSamples) > 0
		}
	}
	for name, fires := range expected {
		if fires {
			fired[name] = true
		} else {
			quiet[name] = true
		}
	}
}
