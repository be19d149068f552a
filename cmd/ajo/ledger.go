package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/ledger"
)

func (t *tool) newLedgerCmd() *cobra.Command {
	return group("ledger", "Check the books", t.newVerifyCmd())
}

// verified is what `ledger verify` prints as JSON.
type verified struct {
	OK       bool             `json:"ok"`
	Findings []ledger.Finding `json:"findings"`
}

func (t *tool) newVerifyCmd() *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the books from the entries; exit code 1 when something does not agree",
		Long: `Reads everything as of one moment, and recomputes it from the entries: every account's totals and running
balances, the numbers, the reversals and reviews, the hash chains, and that the book sums to zero. Then it compares
what belongs together: transfers and their debits, payments and their credits, deliveries and their payments. It
changes nothing and locks nothing. Exit code 1, and a table of what is wrong, when something does not agree.`,
		Example: "  ajo ledger verify --timeout 2h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return errors.New("--timeout must be above zero")
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				findings, err := tools.VerifyLedger(ctx, timeout)
				if err != nil {
					return err
				}
				if err := printFindings(cmd, asJSON, findings); err != nil {
					return err
				}
				if len(findings) > 0 {
					return exitCode(1)
				}
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "the time that one of its queries may take")
	addJSON(cmd, &asJSON)
	return cmd
}

func printFindings(cmd *cobra.Command, asJSON bool, findings []ledger.Finding) error {
	if asJSON {
		if findings == nil {
			findings = []ledger.Finding{}
		}
		return printJSON(cmd.OutOrStdout(), verified{OK: len(findings) == 0, Findings: findings})
	}
	if len(findings) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "The books agree.")
		return nil
	}
	return printTable(cmd.OutOrStdout(), findings, func(f ledger.Finding) []field {
		return []field{{"CHECK THAT FAILED", f.Check}, {"WHERE", f.Subject}, {"FOUND", f.Detail}}
	})
}
