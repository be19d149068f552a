package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fires tells whether the alert's expression holds as of the newest scrape, whatever its "for"
// says, and prints for what.
func fires(ruleFile, name string, files []string) error {
	load, start, end, err := series(files)
	if err != nil {
		return err
	}
	w, err := newWorld(load, start, time.Second, ruleFile)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	if err := w.eval(end); err != nil {
		return err
	}
	for _, a := range w.alerts() {
		if a.Name() != name {
			continue
		}
		active := a.ActiveAlerts()
		for _, x := range active {
			fmt.Printf("%s %s: %g\n", x.State, x.Labels, x.Value)
		}
		if len(active) == 0 {
			return fmt.Errorf("%s is quiet: %s", name, a.Query())
		}
		return nil
	}
	return fmt.Errorf("there is no alert %s", name)
}

// series makes one series a second of the scrapes' samples: each stands at its second, with gaps
// between.
func series(files []string) (load string, start, end time.Time, err error) {
	values := map[string]map[int64]string{} // by series, by second
	var first, last int64
	for _, file := range files {
		stamp, instance, _ := strings.Cut(filepath.Base(file), "-")
		ms, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return "", start, end, fmt.Errorf("%s: its name does not begin with a time", file)
		}
		second := ms / 1000
		if first == 0 || second < first {
			first = second
		}
		last = max(last, second)
		if err := readScrape(file, instance, second, values); err != nil {
			return "", start, end, err
		}
	}
	var b strings.Builder
	b.WriteString("load 1s\n")
	for name, at := range values {
		b.WriteString("  " + name)
		seconds := make([]int64, 0, len(at))
		for s := range at {
			seconds = append(seconds, s)
		}
		slices.Sort(seconds)
		next := first
		for _, s := range seconds {
			if s > next {
				fmt.Fprintf(&b, " _x%d", s-next)
			}
			b.WriteString(" " + at[s])
			next = s + 1
		}
		b.WriteString("\n")
	}
	return b.String(), time.Unix(first, 0).UTC(), time.Unix(last, 0).UTC(), nil
}

// readScrape takes the samples of Ajo's own metrics, with the instance as a label, and adds
// up{job="ajo"}. An empty file is a scrape that was not answered.
func readScrape(file, instance string, second int64, values map[string]map[int64]string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	put := func(series, value string) {
		if values[series] == nil {
			values[series] = map[int64]string{}
		}
		values[series][second] = value
	}
	up := "0"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "ajo_") {
			continue
		}
		up = "1"
		i := strings.LastIndexByte(line, ' ')
		series, value := line[:i], line[i+1:]
		if name, rest, ok := strings.Cut(series, "{"); ok {
			series = fmt.Sprintf("%s{instance=%q,%s", name, instance, rest)
		} else {
			series = fmt.Sprintf("%s{instance=%q}", series, instance)
		}
		put(series, value)
	}
	put(fmt.Sprintf("up{job=%q,instance=%q}", "ajo", instance), up)
	return nil
}
