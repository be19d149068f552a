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
	"ajo/internal/money"
	"ajo/internal/payment"
)

// reportFlags say how a report is printed.
type reportFlags struct{ json, csv bool }

func (f *reportFlags) add(cmd *cobra.Command) {
	addJSON(cmd, &f.json)
	cmd.Flags().BoolVar(&f.csv, "csv", false, "print CSV: a line for each sum, and one for each exception")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
}

func (t *tool) newReconcileCmd() *cobra.Command {
	var f reportFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "reconcile --from <time> [--to <time>]",
		Short: "Compare the books with the bank's transaction list; exit code 1 when they disagree",
		Long: `Reads the bank's list of the payments that it dates from --from to --to (now, without it; at most 31 days), and
compares it with the books. Successful payments whose event never came are stored, and posted by the workers. What
disagrees otherwise is only reported: payments, and status, sum, fee and destination of payouts. What is found is
asked about in every later run until it is settled ("ajo reconcile open"). The report is kept. Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and
_CLIENT_SECRET. Exit code 1 when a person must look; missing events and payments that an operator can assign are no
reason.`,
		Example: "  ajo reconcile --from 2026-03-01 --to 2026-03-02 --csv\n  ajo reconcile --from 2h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now().UTC()
			start, err := parseWhen("--from", from, now)
			if err != nil {
				return err
			}
			end := now
			if to != "" {
				if end, err = parseWhen("--to", to, now); err != nil {
					return err
				}
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				r, err := tools.Reconcile(ctx, start, end)
				if len(r.ToPost) > 0 {
					noteRing(cmd, tools)
				}
				if err != nil {
					return err
				}
				if err := f.print(cmd, r); err != nil {
					return err
				}
				if r.Suspicious() > 0 {
					return exitCode(1)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the beginning: a time, a day (both UTC), or how long ago, as 2h (required)")
	cmd.Flags().StringVar(&to, "to", "", "the end, which is not part of it")
	f.add(cmd)
	cmd.AddCommand(t.newRunsCmd(), t.newRunCmd(), t.newOpenCmd(), t.newDismissCmd())
	return cmd
}

// parseWhen reads a time, a day, or how long ago.
func parseWhen(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return now, fmt.Errorf("%s is required", flag)
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t.UTC(), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return now, fmt.Errorf("%s is a time as 2026-03-01T09:00:00Z, a day, or how long ago, as 2h", flag)
}

func (t *tool) newRunsCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the reconciliations, newest first",
		Example: "  ajo reconcile list --limit 5",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				runs, info, err := tools.Payments.Reconciliations(ctx, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, runs, info, "RUN,KIND,FROM,TO,STATUS,STORED,EXCEPTIONS,ERROR", func(v payment.Run) []string {
					return []string{v.ID.String(), v.Kind, stamp(&v.From), stamp(&v.To), v.Status, number(v.Stored), number(v.Exceptions), cut(v.LastError, 80)}
				})
			})
		},
	}
	f.add(cmd)
	return cmd
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func (t *tool) newRunCmd() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:     "show <run>",
		Short:   "Print the report of a finished reconciliation",
		Example: "  ajo reconcile show 0198c0de-0000-7000-8000-000000000001 --csv",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the run", args[0])
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				r, err := tools.Payments.Reconciliation(ctx, id)
				if err != nil {
					return err
				}
				return f.print(cmd, r)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (f *reportFlags) print(cmd *cobra.Command, r payment.Report) error {
	switch {
	case f.json:
		return printJSON(cmd, r)
	case f.csv:
		return writeReport(cmd.OutOrStdout(), r)
	}
	return printReport(cmd.OutOrStdout(), r)
}

// sumLine is one sum of a report.
type sumLine struct {
	side, status string
	sum          payment.Sum
}

func sumLines(r payment.Report) []sumLine {
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
		sums payment.SumsByStatus
	}{{"bank", r.Bank.Payouts}, {"books", r.Books.Payouts}} {
		for _, status := range slices.Sorted(maps.Keys(side.sums)) {
			lines = append(lines, sumLine{side.name, "payouts " + status, side.sums[status]})
		}
	}
	return lines
}

// printReport prints a report for people.
func printReport(w io.Writer, r payment.Report) error {
	f := r.Float
	err := printFields(
		w,
		field{"run", r.ID.String() + " (" + r.Kind + ")"},
		field{"from", stamp(&r.From)},
		field{"to", stamp(&r.To)},
		field{"stored, to be posted", strconv.Itoa(r.Counts[payment.MissingEvent])},
		field{"listed at another time", strconv.Itoa(r.Elsewhere)},
		field{"not listed yet", strconv.Itoa(r.Young)},
		field{"wallet", signedText(f.Wallet)},
		field{"as of", stamp(f.At)},
		field{"customers' balances", signedText(f.Customers)},
		field{"outside the balances", signedText(f.Outside)},
		field{"payouts under way", signedText(f.UnderWay)},
		field{"difference", signedText(f.Difference)},
		field{"unexplained", signedText(f.Unexplained)},
		field{"not comparable", f.Why},
	)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	var rows [][]string
	for _, l := range sumLines(r) {
		rows = append(rows, []string{l.side, l.status, strconv.Itoa(l.sum.Count), l.sum.Amount.String(), l.sum.Fee.String()})
	}
	if err := printTable(w, "SIDE,STATUS,COUNT,AMOUNT,FEE", rows); err != nil {
		return err
	}
	if len(f.Explained) > 0 {
		fmt.Fprintln(w)
		rows = nil
		for _, e := range f.Explained {
			rows = append(rows, []string{e.Amount.String(), e.Ref, e.What})
		}
		if err := printTable(w, "IN THE WALLET,TRANSACTION,BECAUSE", rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if len(r.Exceptions) == 0 {
		fmt.Fprintln(w, "Bank and books agree.")
		return nil
	}
	rows = nil
	for _, x := range r.Exceptions {
		rows = append(rows, []string{string(x.Kind), cmp.Or(x.MerchantTxRef, x.ProviderTxnRef), idText(x.EventID), x.AccountNumber, amountText(x.BankAmount), amountText(x.BooksAmount), x.Detail})
	}
	if err := printTable(w, "EXCEPTION,TRANSACTION,EVENT,PAID TO,BANK,BOOKS,WHAT", rows); err != nil {
		return err
	}
	if more := r.ExceptionCount() - len(r.Exceptions); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return nil
}

// writeReport prints a report as CSV: sums first, then exceptions, under one header.
func writeReport(w io.Writer, r payment.Report) error {
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
	for _, x := range r.Exceptions {
		lines = append(lines, []string{
			"exception", "", string(x.Kind), "1", amountText(x.BankAmount), amountText(x.BankFee), amountText(x.BooksAmount), amountText(x.BooksFee),
			safeCell(cmp.Or(x.MerchantTxRef, x.ProviderTxnRef)), idText(x.EventID), idText(x.AccountID), safeCell(x.AccountNumber), stamp(x.At), x.BankStatus, cmp.Or(string(x.EntryStatus), x.TransferStatus), safeCell(x.Detail),
		})
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

func idText(id *uuid.UUID) string {
	if id == nil {
		return ""
	}
	return id.String()
}

func amountText(a *money.Amount) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func signedText(s *payment.Signed) string {
	if s == nil {
		return ""
	}
	return s.String()
}
