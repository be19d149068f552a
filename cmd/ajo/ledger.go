package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/invariant"
	"ajo/ledger"
)

func (t *tool) newLedgerCmd() *cobra.Command {
	return group("ledger", "Check the books, and show the system accounts", t.newVerifyCmd(), t.newTrialBalanceCmd(), t.newSystemStatementCmd())
}

// verified is what `ledger verify` prints as JSON.
type verified struct {
	OK       bool             `json:"ok"`
	All      bool             `json:"all"`             // every entry was read
	Since    *time.Time       `json:"since,omitempty"` // what the checkpoints had verified
	Accounts int64            `json:"accounts"`
	Entries  int64            `json:"entries"` // that were read
	Below    int64            `json:"below"`   // that the checkpoints stand for
	TookMS   int64            `json:"tookMs"`
	Findings []ledger.Finding `json:"findings"`
}

// progressEvery is how often a long run says how far it is.
const progressEvery = 5 * time.Second

func (t *tool) newVerifyCmd() *cobra.Command {
	var full bool
	var timeout time.Duration
	var cmd *cobra.Command
	cmd = newShowCmd(t, showing[verified]{
		command: command{
			use: "verify", short: "Recompute the books from the entries; exit code 1 when something does not agree",
			long: `Recomputes the books from the entries, as of one moment: every account's totals and running balances, the numbers,
the reversals and reviews, the hash chains, and that the book sums to zero. Then it compares what belongs together: transfers
and their debits, payments and their credits, deliveries and their payments. It locks nothing.

A run that finds nothing stores a checkpoint of each account, and the next run reads what is newer, and what may have changed
since. The first run reads everything, as does one that has more than a quarter of the book to read. --full reads everything,
and compares it with the checkpoints; only this finds a change of an older entry that leaves all sums as they were. A run that finds
something moves no checkpoint. Exit code 1, and a table of what is wrong, when something does not
agree.`,
			example: "  ajo ledger verify\n  ajo ledger verify --full --timeout 2h",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().BoolVar(&full, "full", false, "read every entry, and compare it with the checkpoints")
				cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "the time that one of its queries may take")
			},
		},
		args: cobra.NoArgs,
		read: func(ctx context.Context, tools *app.Tools, _ string) (v verified, err error) {
			if timeout <= 0 {
				return v, errors.New("--timeout must be above zero")
			}
			begin := time.Now()
			r, err := invariant.Resume(ctx, tools.Pool, ledger.Reading{All: full, Timeout: timeout, Progress: readProgress(cmd.ErrOrStderr(), begin)})
			if err != nil {
				return v, err
			}
			return verified{
				OK: len(r.Findings) == 0, All: r.All, Since: r.Since, Accounts: r.Accounts, Entries: r.Entries, Below: r.Below,
				TookMS: time.Since(begin).Milliseconds(), Findings: append([]ledger.Finding{}, r.Findings...),
			}, nil
		},
		print: func(out io.Writer, v verified) error { return printVerified(out, cmd.ErrOrStderr(), v) },
		ends:  func(v verified) error { return failsUnless(v.OK) },
	})
	return cmd
}

// readProgress says every few seconds how many entries were read.
func readProgress(w io.Writer, begin time.Time) func(read, of int64) {
	last := begin
	return func(read, of int64) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			fmt.Fprintf(w, "%d of about %d entries read after %s\n", read, of, time.Since(begin).Round(time.Second))
		}
	}
}

func printVerified(out, stderr io.Writer, v verified) error {
	took := time.Duration(v.TookMS) * time.Millisecond
	read := fmt.Sprintf("Read all %d entries of %d accounts in %s.", v.Entries, v.Accounts, took)
	if !v.All {
		read = fmt.Sprintf("Read %d entries of %d accounts in %s, from the checkpoints of %s on; %d entries are below these.",
			v.Entries, v.Accounts, took, v.Since.Format(time.RFC3339), v.Below)
	}
	if v.OK {
		fmt.Fprintf(out, "The books agree.\n%s\n", read)
		return nil
	}
	fmt.Fprintln(stderr, read)
	return printTable(out, v.Findings, func(f ledger.Finding) []field {
		return []field{{"CHECK THAT FAILED", f.Check}, {"WHERE", f.Subject}, {"FOUND", f.Detail}}
	})
}
