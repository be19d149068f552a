package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/clock"
	"ajo/internal/page"
	"ajo/ledger"
)

func (t *tool) newTrialBalanceCmd() *cobra.Command {
	var at dayFlag
	return newShowCmd(t, showing[ledger.TrialBalance]{
		command: command{
			use: "trial-balance", short: "Show the balances of all accounts; exit code 1 when they do not sum to zero",
			long: `Shows the balance of the wallet at the bank, of all tenants' accounts together, and of each system account, at the end of a day in
Lagos, or so far on the present one. It reads the balances and the sums by day, and no entry: ajo ledger verify compares these with the entries. An entry counts
on the day of its posting, unless it has been reversed, or put under review, since. Exit code 1 when debits and credits differ.`,
			example: "  ajo ledger trial-balance\n  ajo ledger trial-balance --at 2026-10-31 --json",
			flags: func(cmd *cobra.Command) {
				addFlag(cmd, &at, "at", "a day, such as 2026-10-31; its end in Lagos counts (default today)")
			},
		},
		args: cobra.NoArgs,
		read: func(ctx context.Context, tools *app.Tools, _ string) (b ledger.TrialBalance, err error) {
			day, now := at.at, tools.Now()
			if day.IsZero() || day.After(now) { // what a day to come ends with is not known
				day = now
			}
			begin, err := clock.ParseDay(clock.Day(day))
			if err != nil {
				return b, err
			}
			ended, err := ledger.Ended(ctx, tools.Pool, begin.AddDate(0, 0, 1)) // before the reading
			if err != nil {
				return b, err
			}
			b, err = ledger.ReadTrialBalance(ctx, tools.Pool, clock.Day(day))
			b.Ended = ended
			return b, err
		},
		print: printTrialBalance,
		ends:  func(b ledger.TrialBalance) error { return failsUnless(b.Total.Sign() == 0) },
	})
}

func printTrialBalance(out io.Writer, b ledger.TrialBalance) error {
	when := "So far on"
	if b.Ended {
		when = "At the end of"
	}
	fmt.Fprintf(out, "%s %s (Lagos), in naira:\n", when, b.Day)
	lines := append(b.Accounts[:len(b.Accounts):len(b.Accounts)], ledger.AccountBalance{Account: "total", Debit: b.Debits, Credit: b.Credits})
	return printTable(out, lines, func(l ledger.AccountBalance) []field {
		return []field{{"ACCOUNT", l.Account}, {"DEBIT", l.Debit.Grouped()}, {"CREDIT", l.Credit.Grouped()}}
	})
}

func (t *tool) newSystemStatementCmd() *cobra.Command {
	var from, to dayFlag
	names := make([]string, len(ledger.SystemAccounts))
	for i, a := range ledger.SystemAccounts {
		names[i] = string(a)
	}
	return newListCmd(t, listing[ledger.SystemLine]{
		args: cobra.ExactArgs(1),
		command: command{
			use: "statement <system account>", short: "Show the entries of a system account, newest first",
			long:    "Shows the entries of " + strings.Join(names, ", ") + ",\nfrom this account's side: a credit is money that came to it.",
			example: "  ajo ledger statement suspense\n  ajo ledger statement bank_fees --from 2026-10-01 --to 2026-10-31",
			flags: func(cmd *cobra.Command) {
				addFlag(cmd, &from, "from", "from the beginning of this day in Lagos on, such as 2026-10-01")
				addFlag(cmd, &to, "to", "until the end of this day in Lagos, such as 2026-10-31")
			},
			complete: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return names, cobra.ShellCompDirectiveNoFileComp
			},
		},
		read: func(ctx context.Context, tools *app.Tools, args []string, r page.Request) ([]ledger.SystemLine, page.Info, error) {
			end := to.at
			if !end.IsZero() {
				end = end.AddDate(0, 0, 1)
			}
			a, err := ledger.ParseSystemAccount(args[0])
			if err != nil {
				return nil, page.Info{}, err
			}
			return ledger.ReadSystemStatement(ctx, tools.Pool, a, from.at, end, r)
		},
		row: func(l ledger.SystemLine, _ time.Time) []field {
			ref := l.ProviderTxnRef
			if l.TransferRef != nil {
				ref = *l.TransferRef
			}
			return []field{
				{"POSTED", l.CreatedAt.Format(time.RFC3339)},
				{"DIRECTION", string(l.Direction)},
				{"AMOUNT", l.Amount.Grouped()},
				{"STATUS", string(l.Status)},
				{"KIND", string(l.Kind)},
				{"OTHER SIDE", l.Other},
				{"REFERENCE", ref},
				{"NARRATION", l.Narration},
			}
		},
	})
}
