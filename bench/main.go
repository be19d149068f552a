// Command bench measures how fast Ajo is on this machine, in units of what its Postgres can do, and
// holds the books against what was accepted: a fast run that is wrong fails.
//
// It runs a Postgres and a Redis of its own with default durability, and the built binary as one
// bank, one API and one worker, all on this machine, beside the load generator. `make bench` starts
// it; docs/performance.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context) error {
	var o options
	var rows, out string
	flag.StringVar(&o.bin, "ajo", "bin/ajo", "the built binary")
	flag.StringVar(&o.dir, "dir", ".ajo/bench", "where databases, logs and profiles are kept")
	flag.StringVar(&rows, "rows", "", "rows to run, joined by commas: "+strings.Join(rowNames(), ", ")+"; empty: all")
	flag.DurationVar(&o.took, "took", 10*time.Second, "how long a row's load lasts")
	flag.IntVar(&o.rate, "rate", 0, "payments a second for the latency rows; 0: half of what this run has measured")
	flag.BoolVar(&o.profile, "profile", false, "write CPU profiles, pg_stat_statements and Redis' commandstats beside the result")
	flag.BoolVar(&o.full, "full", false, "take a book of 10,000,000 entries, which takes some minutes to fill the first time")
	flag.BoolVar(&o.scale, "scale", false, "run the rows about a large book, with the settings of Postgres that deploy/compose.yaml ships")
	flag.StringVar(&o.pg, "pg", "", "settings of Postgres as name=value, joined by commas; empty: its defaults, or with -scale those of deploy/compose.yaml")
	flag.IntVar(&o.due, "due", 1_000_000, "payments that are due when Redis is emptied, and that are reconciled then (row due)")
	flag.DurationVar(&o.lasts, "soak", 30*time.Minute, "how long row soak lasts; it runs only where -rows names it")
	flag.StringVar(&out, "out", "", "the result's name in bench/results, without an ending; empty: date and commit")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "bench [flags]          measure\nbench compare A B      print two results side by side")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.Arg(0) == "compare" && flag.NArg() == 3 {
		return compare(os.Stdout, flag.Arg(1), flag.Arg(2))
	}
	if flag.NArg() > 0 {
		flag.Usage()
		return flag.ErrHelp
	}
	if rows != "" {
		o.rows = strings.Split(rows, ",")
	}
	if out == "" {
		out = time.Now().UTC().Format("2006-01-02-150405") + "-" + commit()
	}
	o.out = filepath.Join("bench", "results", out)
	return measure(ctx, o)
}

// measure runs the rows and writes the result.
func measure(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "bench %4.0fs: %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	settings, err := o.postgres()
	if err != nil {
		return err
	}
	say("Postgres with %s", strings.Join(settings, ", "))
	s, err := startServers(ctx, o.dir, o.bin, settings, say)
	if err != nil {
		return err
	}
	defer s.stop()
	if s.bin, err = keepBinary(o); err != nil {
		return err
	}
	r := newRun(s, o)
	r.result.Commit, r.result.Machine = commit(), machine()
	failed := r.all(ctx)
	if ctx.Err() != nil {
		return failed
	}
	if err := r.finish(); err != nil {
		return err
	}
	return failed
}

// keepBinary copies the binary, so that a build meanwhile does not change it between two rows.
func keepBinary(o options) (string, error) {
	b, err := os.ReadFile(o.bin)
	if err != nil {
		return "", err
	}
	name := filepath.Join(o.dir, "ajo")
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return name, os.WriteFile(name, b, 0o755)
}

// commit is the source's, as git knows it; "-changed" is added when the tree has been since.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty=-changed").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() string {
	model := ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores, %s/%s%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, model)
}
