package main

import (
	"context"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/payment"
)

func (t *tool) newOpenCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "open",
		Short: "List what reconciliations have found and still ask about, newest first",
		Long: `Lists the payments and payouts in which bank and books disagree, and those that the bank has under way. Each is asked
about in every run of the workers, and goes from the list when bank and books agree. IN THE WALLET is how much more the bank's
wallet has for it than the books.`,
		Example: "  ajo reconcile open --limit 50",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				items, info, err := tools.Payments.OpenItems(ctx, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, items, info, "KIND,TRANSACTION,AGE,IN THE WALLET,NEXT,DISMISSED,WHAT", func(v payment.OpenItem) []string {
					what := "the bank has it under way"
					if v.Exception != nil {
						what = string(v.Exception.Kind) + ": " + v.Exception.Detail
					}
					return []string{v.Kind, v.Ref, age(v.FoundAt), v.Effect.String(), stamp(&v.NextAt), stamp(v.DismissedAt), what}
				})
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (t *tool) newDismissCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "dismiss <transaction>",
		Short: "Take note of an exception, so that it is not reported again",
		Long: `Takes note of an exception of "ajo reconcile open", by the bank's transaction id or the merchantTxRef. Nothing is booked. It is
not reported again unless what bank or books say of it changes, and the wallet's explanation keeps it.`,
		Example: `  ajo reconcile dismiss API-VACT_TRA-B7B10 --reason "ticket 4711: the bank lists the payment twice"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			if err := f.confirm(cmd, "Report the exception about %q no more. Nothing is booked.", args[0]); err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				x, err := tools.Payments.Dismiss(ctx, args[0], by)
				if err != nil {
					return err
				}
				return f.done(cmd, x, "Dismissed: %s: %s.", x.Kind, x.Detail)
			})
		},
	}
	f.add(cmd)
	return cmd
}
