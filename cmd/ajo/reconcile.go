package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/reconcile"
)

func addCSV(cmd *cobra.Command, csv *bool) {
	cmd.Flags().BoolVar(csv, "csv", false, "print CSV: a line for each sum, one for each exception, and one for what is not listed of a kind")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
}

func (t *tool) newReconcileCmd() *cobra.Command {
	var csv bool
	var from, to whenFlag
	var cmd *cobra.Command
	cmd = newShowCmd(t, showing[reconcile.Report]{
		command: command{
			use: "reconcile --from <time> [--to <time>]", short: "Compare the books with the bank's transaction list; exit code 1 when they disagree",
			long: `Reads the bank's list of the payments that it dates from --from to --to (now, without it or if it is
later; at most 31 days), and compares it with the books. Successful payments whose event never came are stored, and
posted by the workers. What disagrees otherwise is only reported: payments, and status, sum, fee and destination of
payouts. What is found is asked about in every later run until it is settled ("ajo reconcile open"). The report is
kept. Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET. Exit code 1 when a person must look; missing events and payments that an operator can assign are no
reason.`,
			example: "  ajo reconcile --from 2026-03-01 --to 2026-03-02 --csv\n  ajo reconcile --from 2h",
			flags: func(cmd *cobra.Command) {
				addFlag(cmd, &from, "from", "the beginning: a time, a day in UTC, or how long ago, such as 2h (required)")
				addFlag(cmd, &to, "to", "the end, which is not part of it")
				must(cmd.MarkFlagRequired("from"))
				addCSV(cmd, &csv)
			},
		},
		args: cobra.NoArgs,
		read: func(ctx context.Context, tools *app.Tools, _ string) (r reconcile.Report, err error) {
			now := tools.Now()
			end := now
			if to.at != nil {
				end = to.at(now)
			}
			r, err = tools.Reconciler.Run(ctx, from.at(now), end)
			if r.Counts[reconcile.MissingEvent] > 0 {
				noteEnqueued(cmd, tools)
			}
			return r, err
		},
		print: func(out io.Writer, r reconcile.Report) error { return printReport(out, r, csv) },
		ends:  func(r reconcile.Report) error { return failsUnless(r.Suspicious() == 0) },
	})
	cmd.AddCommand(t.newRunsCmd(), t.newRunCmd(), t.newOpenCmd(), t.newDismissCmd())
	return cmd
}

func (t *tool) newRunsCmd() *cobra.Command {
	return newListCmd(t, listing[reconcile.Run]{
		command: command{short: "List the reconciliations, newest first", example: "  ajo reconcile list --limit 5"},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]reconcile.Run, page.Info, error) {
			return tools.Reconciler.Reconciliations(ctx, r)
		},
		row: func(v reconcile.Run, _ time.Time) []field {
			return []field{
				{"RUN", v.ID.String()},
				{"KIND", v.Kind},
				{"FROM", stamp(&v.From)},
				{"TO", stamp(&v.To)},
				{"STATUS", v.Status},
				{"STORED", optional(v.Stored)},
				{"EXCEPTIONS", optional(v.Exceptions)},
				{"ERROR", cut(v.LastError, 80)},
			}
		},
	})
}

func (t *tool) newRunCmd() *cobra.Command {
	var csv bool
	return newShowCmd(t, showing[reconcile.Report]{
		command: command{
			use: "show <run>|last", short: "Print the report of a finished reconciliation, or of the workers' last one",
			example: "  ajo reconcile show last --csv\n  ajo reconcile show 0198c0de-0000-7000-8000-000000000001",
			flags:   func(cmd *cobra.Command) { addCSV(cmd, &csv) },
		},
		read: func(ctx context.Context, tools *app.Tools, run string) (reconcile.Report, error) {
			if run == "last" {
				return tools.Reconciler.LastReconciliation(ctx)
			}
			return byID("the run", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (reconcile.Report, error) {
				return tools.Reconciler.Reconciliation(ctx, id)
			})(ctx, tools, run)
		},
		print: func(out io.Writer, r reconcile.Report) error { return printReport(out, r, csv) },
	})
}

func (t *tool) newOpenCmd() *cobra.Command {
	return newListCmd(t, listing[reconcile.OpenItem]{
		command: command{
			use: "open", short: "List what reconciliations have found and still ask about, newest first",
			long: `Lists the payments and payouts in which bank and books disagree, and those that the bank or the books have under way. Every run of the
workers asks about each of them, until bank and books agree. What is of the kind "list" is a time, or a record of the bank's list, that no run could
read: a run over that time which can closes it. IN THE WALLET is how much more the bank's wallet has for it than the
books.`,
			example: "  ajo reconcile open --limit 50",
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]reconcile.OpenItem, page.Info, error) {
			return tools.Reconciler.OpenItems(ctx, r)
		},
		row: func(v reconcile.OpenItem, now time.Time) []field {
			what := "the bank has it under way"
			switch {
			case v.Exception != nil:
				what = string(v.Exception.Kind) + ": " + v.Exception.Detail
			case v.Effect.Sign() != 0: // under way in the books, or known to a person
				what = "no exception, but wallet and books differ"
			}
			return []field{
				{"KIND", v.Kind},
				{"TRANSACTION", v.Ref},
				{"AGE", age(now, v.FoundAt)},
				{"IN THE WALLET", v.Effect.String()},
				{"NEXT", stamp(&v.NextAt)},
				{"DISMISSED", stamp(v.DismissedAt)},
				{"WHAT", what},
			}
		},
	})
}

func (t *tool) newDismissCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "dismiss <transaction>", short: "Dismiss an exception, so that it is not reported again",
			long: `Dismisses an exception of "ajo reconcile open", by its TRANSACTION there: the bank's transaction id, the merchantTxRef or, of the bank's list, what
is named. Nothing is booked. It is
not reported again unless the bank or the books change what they say of it. The wallet's explanation keeps it.`,
			example: `  ajo reconcile dismiss API-VACT_TRA-B7B10 --reason "ticket 4711: the bank lists the payment twice"`,
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			it, err := tools.Reconciler.OpenException(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			x := it.Exception
			return plan{
				will: fmt.Sprintf("Dismiss the exception about %s %q, %s: %s. It is not reported again. Nothing is booked.", it.Kind, it.Ref, x.Kind, x.Detail),
				do: func(by audit.By) (result, error) {
					return done(x, "Dismissed: %s: %s.", x.Kind, x.Detail), tools.Reconciler.Dismiss(ctx, it, by)
				},
			}, nil
		},
	})
}

// sumLine is one sum of a report.
type sumLine struct {
	side, status string
	sum          reconcile.Sum
}

func sumLines(r reconcile.Report) []sumLine {
	lines := []sumLine{
		{"bank", "success", r.Bank.Success},
		{"bank", "pending", r.Bank.Pending},
		{"bank", "failed", r.Bank.Failed},
		{"bank", "refunded", r.Bank.Refunded},
		{"books", "provisional", r.Books.Provisional},
		{"books", "confirmed", r.Books.Confirmed},
		{"books", "needs_review", r.Books.NeedsReview},
		{"books", "reversed", r.Books.Reversed},
	}
	for _, side := range []struct {
		name string
		sums reconcile.SumsByStatus
	}{{"bank", r.Bank.Payouts}, {"books", r.Books.Payouts}} {
		for _, status := range slices.Sorted(maps.Keys(side.sums)) {
			lines = append(lines, sumLine{side.name, "payouts " + status, side.sums[status]})
		}
	}
	return lines
}

// printReport prints a report for people, or as CSV.
func printReport(w io.Writer, r reconcile.Report, csv bool) error {
	if csv {
		return writeReport(w, r)
	}
	f := r.Float
	err := printFields(
		w,
		field{"run", r.ID.String() + " (" + r.Kind + ")"},
		field{"from", stamp(&r.From)},
		field{"to", stamp(&r.To)},
		field{"stored, to be posted", strconv.Itoa(r.Counts[reconcile.MissingEvent])},
		field{"listed at another time", strconv.Itoa(r.Elsewhere)},
		field{"not listed yet", strconv.Itoa(r.Young)},
		field{"wallet", optional(f.Wallet)},
		field{"as of", stamp(f.At)},
		field{"customers' balances", optional(f.Customers)},
		field{"suspense", optional(f.Suspense)},
		field{"revenue", optional(f.Revenue)},
		field{"bank fees", optional(f.BankFees)},
		field{"taxes", optional(f.Taxes)},
		field{"outside the balances", optional(f.Outside)},
		field{"payouts under way", optional(f.UnderWay)},
		field{"difference", optional(f.Difference)},
		field{"unexplained", optional(f.Unexplained)},
		field{"not comparable", f.Why},
	)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	err = printTable(w, sumLines(r), func(l sumLine) []field {
		return []field{{"SIDE", l.side}, {"STATUS", l.status}, {"COUNT", strconv.Itoa(l.sum.Count)}, {"AMOUNT", l.sum.Amount.String()}, {"FEE", l.sum.Fee.String()}}
	})
	if err != nil {
		return err
	}
	if len(f.Explained) > 0 {
		fmt.Fprintln(w)
		err = printTable(w, f.Explained, func(e reconcile.Explanation) []field {
			return []field{{"IN THE WALLET", e.Amount.String()}, {"TRANSACTION", e.Ref}, {"BECAUSE", e.What}}
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if len(r.Exceptions) == 0 {
		_, err := fmt.Fprintln(w, agreement(f))
		return err
	}
	err = printTable(w, r.Exceptions, func(x reconcile.Exception) []field {
		return []field{
			{"EXCEPTION", string(x.Kind)},
			{"TRANSACTION", cmp.Or(x.MerchantTxRef, x.ProviderTxnRef)},
			{"EVENT", optional(x.EventID)},
			{"PAID TO", x.AccountNumber},
			{"BANK", optional(x.BankAmount)},
			{"BOOKS", optional(x.BooksAmount)},
			{"WHAT", x.Detail},
		}
	})
	if more := r.ExceptionCount() - len(r.Exceptions); err == nil && more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return err
}

// agreement says how bank and books stand where a run found no exception.
func agreement(f reconcile.Float) string {
	switch less := f.Unexplained != nil && f.Unexplained.Sign() < 0; {
	case less && f.Comparable:
		return fmt.Sprintf("No exceptions, but the wallet has NGN %s less than the books explain.", f.Unexplained.Neg())
	case less:
		return fmt.Sprintf("No exceptions, but the wallet has NGN %s less than the books explain, as far as it can be compared: %s.", f.Unexplained.Neg(), f.Why)
	case len(f.Explained) > 0: // exceptions that were dismissed, for example
		return "No new exceptions."
	}
	return "Bank and books agree."
}

// writeReport prints a report as CSV: sums first, then exceptions, then how many of a kind are not
// listed, under one header.
func writeReport(w io.Writer, r reconcile.Report) error {
	out := csv.NewWriter(w)
	lines := [][]string{{
		"line", "side", "kind", "count", "bank_amount", "bank_fee", "books_amount", "books_fee", "transaction", "event", "account", "paid_to", "at", "bank_status", "entry_status", "detail",
	}}
	for _, l := range sumLines(r) {
		line := []string{"sum", l.side, l.status, strconv.Itoa(l.sum.Count), "", "", "", "", "", "", "", "", "", "", "", ""}
		at := 4
		if l.side == "books" {
			at = 6
		}
		line[at], line[at+1] = l.sum.Amount.String(), l.sum.Fee.String()
		lines = append(lines, line)
	}
	listed := map[reconcile.ExceptionKind]int{}
	for _, x := range r.Exceptions {
		listed[x.Kind]++
		lines = append(lines, []string{
			"exception", "", string(x.Kind), "1", optional(x.BankAmount), optional(x.BankFee), optional(x.BooksAmount), optional(x.BooksFee),
			safeCell(cmp.Or(x.MerchantTxRef, x.ProviderTxnRef)), optional(x.EventID), optional(x.AccountID), safeCell(x.AccountNumber), stamp(x.At), x.BankStatus, cmp.Or(string(x.EntryStatus), x.TransferStatus), safeCell(x.Detail),
		})
	}
	for _, kind := range reconcile.Kinds {
		if more := r.Counts[kind] - listed[kind]; more > 0 {
			line := make([]string, len(lines[0]))
			line[0], line[2], line[3], line[len(line)-1] = "more", string(kind), strconv.Itoa(more), "not listed: a report lists 1,000 exceptions at most"
			lines = append(lines, line)
		}
	}
	return errors.Join(out.WriteAll(lines), out.Error())
}

// safeCell keeps a spreadsheet from taking a foreign text for a formula.
func safeCell(s string) string {
	if s = printable(s); s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@') {
		return "'" + s
	}
	return s
}
