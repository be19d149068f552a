// Command mutate tries whether the tests would notice a mistake. It makes one small mistake at a
// time in lines that decide about money, locks, scope, states and boundaries, in Go and in the SQL
// inside it, and runs the tests that cover the line. A mistake that no test notices is a survivor:
// a test is missing, or the mistake is none, which excused.txt then says with its reason.
//
// No file of the tree is touched: the tests are compiled once with all mutants in them (schema.go),
// by `go test -c -overlay`, and told when they start which one is on; the few that cannot stand
// beside the code as it is are compiled by themselves. Which test runs which mutant is kept in
// .ajo/mutate. See `make mutate`.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// passMark is the share of the mutants, in percent, that the tests must notice; those that are
// excused do not count.
const passMark = 95

// target is a package whose lines are changed, and the packages whose tests that cover the line are
// run in turn until one fails.
type target struct {
	dir   string
	tests []string
}

// targets are the packages that money depends on. The first tests are the package's own; further
// ones are asked when those pass. The end-to-end tests are left out: each starts the whole service.
var targets = []target{
	{"ledger", []string{"./ledger", "./internal/payment", "./internal/transfer", "./api", "./cmd/ajo"}},
	{"ratelimit", []string{"./ratelimit", "./api"}},
	{"internal/account", []string{"./internal/account", "./internal/payment", "./api", "./cmd/ajo"}},
	{"internal/customer", []string{"./internal/customer", "./api"}},
	{"internal/freeze", []string{"./internal/freeze", "./internal/transfer", "./api", "./cmd/ajo"}},
	{"internal/limit", []string{"./internal/limit", "./internal/transfer", "./ledger", "./api", "./cmd/ajo"}},
	{"internal/fee", []string{"./internal/fee", "./api"}},
	{"internal/fsm", []string{"./internal/account", "./ledger"}},
	{"internal/idempotency", []string{"./internal/idempotency", "./internal/transfer", "./internal/account"}},
	{"internal/money", []string{"./internal/money", "./ledger"}},
	{"internal/payment", []string{"./internal/payment", "./internal/reconcile", "./internal/invariant", "./workers", "./api", "./cmd/ajo"}},
	{"internal/reconcile", []string{"./internal/reconcile", "./workers", "./cmd/ajo"}},
	{"internal/retry", []string{"./internal/retry", "./workers"}},
	{"internal/tenant", []string{"./internal/tenant", "./api", "./cmd/ajo"}},
	{"internal/transfer", []string{"./internal/transfer", "./internal/payment", "./internal/invariant", "./workers", "./api", "./cmd/ajo"}},
	{"internal/webhook", []string{"./internal/webhook", "./api"}},
	{"internal/work", []string{"./internal/work", "./internal/webhook", "./workers", "./cmd/ajo"}},
}

// options are what the command line says, and what only tests change.
type options struct {
	root    string
	covered []string // the packages whose lines are changed
	count   int
	jobs    int
	seed    uint64
	only    string
	kind    string
	minutes float64
	limit   time.Duration // how long tests that are run together may take
	// how long the tests that are asked about a mutant may take, one after the other without it
	budget time.Duration
}

// excusedFile has the excuses, below the root.
const excusedFile = "internal/tools/mutate/excused.txt"

func main() {
	o := options{limit: 5 * time.Minute, budget: time.Minute}
	list := flag.Bool("list", false, "only list the mutants that would be tried")
	flag.StringVar(&o.root, "root", ".", "the module's root")
	flag.IntVar(&o.count, "n", 100, "how many mutants are tried, drawn by the seed; 0: all")
	flag.IntVar(&o.jobs, "jobs", 1, "how many are tried at once")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of the draw; 0: one is drawn")
	flag.StringVar(&o.only, "only", "", "only mutants whose file and function, as in their names, match this expression")
	flag.StringVar(&o.kind, "kind", "", "only mutants of this kind: lock, scope, state, money or boundary")
	flag.Float64Var(&o.minutes, "minutes", 0, "after how long to end with the score so far; 0: when all are tried")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, list bool) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	o.root = root
	for _, t := range targets {
		o.covered = append(o.covered, "./"+t.dir)
	}
	all, err := mutantsOf(root, targets)
	if err != nil {
		return err
	}
	ex, err := readExcuses(filepath.Join(root, excusedFile))
	if err != nil {
		return err
	}
	if unused := ex.unused(all); len(unused) > 0 {
		return fmt.Errorf("%s excuses what is no mutant any more; take out:\n%s", excusedFile, strings.Join(unused, "\n"))
	}
	if _, err := regexp.Compile(o.only); err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	drawn := draw(all, ex, o)
	fmt.Printf("AJO_SEED=%d: %d of %d mutants\n", o.seed, len(drawn), len(all))
	if list {
		for _, m := range drawn {
			fmt.Println(m)
		}
		return nil
	}
	return try(ctx, o, all, drawn, ex.count(all), os.Stdout)
}

// errNoTime ends a run whose time is up.
var errNoTime = errors.New("the time is up")

// try tries the mutants and reports the score, that of those tried so far when it is ended early.
func try(ctx context.Context, o options, all, drawn []mutant, excused int, out io.Writer) (err error) {
	if o.minutes > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(o.minutes*float64(time.Minute)), errNoTime)
		defer cancel()
	}
	s := newScore(excused)
	t, err := newTester(ctx, o, all, out)
	if err == nil {
		err = errors.Join(t.try(ctx, drawn, s), t.close())
	}
	if err != nil {
		fmt.Fprintf(out, "ended after %d of %d mutants: %v\n", s.tried, len(drawn), err)
	}
	if errors.Is(err, errNoTime) {
		err = nil
	}
	return errors.Join(err, s.report(out))
}

// draw takes a sample of the mutants that are not excused: as many of each kind, as long as there
// are some. A mutant's place in the draw follows from its name and the seed, so the same seed draws
// the same mutants of lines that have not changed meanwhile.
func draw(all []mutant, ex excuses, o options) (drawn []mutant) {
	only := regexp.MustCompile(o.only)
	left := map[string][]mutant{}
	for _, m := range all {
		if _, ok := ex.excuse(m); !ok && only.MatchString(m.file+" "+m.function+":") && (o.kind == "" || o.kind == m.kind()) {
			left[m.kind()] = append(left[m.kind()], m)
		}
	}
	place := func(m mutant) [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "%d %s", o.seed, m.key())) }
	for _, of := range left {
		slices.SortStableFunc(of, func(a, b mutant) int {
			x, y := place(a), place(b)
			return bytes.Compare(x[:], y[:])
		})
	}
	kinds := slices.Sorted(maps.Keys(left))
	for more := true; more; {
		more = false
		for _, k := range kinds {
			if len(left[k]) > 0 && (o.count == 0 || len(drawn) < o.count) {
				drawn, left[k], more = append(drawn, left[k][0]), left[k][1:], true
			}
		}
	}
	return drawn
}
