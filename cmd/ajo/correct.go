package main

import (
	"context"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/money"
	"ajo/internal/payment"
)

func (t *tool) newCorrectCmd() *cobra.Command {
	var f changeFlags
	var amount, fee string
	cmd := &cobra.Command{
		Use:               "correct <event>",
		ValidArgsFunction: t.reviews(),
		Short:             "Count a payment under review with its true sum",
		Long: `For a payment under review whose true sum is neither the event's nor zero. Ask the bank first: the money must be there.
The entry under review is reversed, and a credit of the amount less the fee is posted in its place, once, and confirmed by your word:
it is in the balance, and may be paid out. The tenant is told of both.`,
		Example: `  ajo review correct 0198c0de-0000-7000-8000-000000000001 --amount 5000.00 --fee 10.00 --reason "ticket 4711: the bank's letter"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the event", args[0])
			if err != nil {
				return err
			}
			by, err := f.by()
			if err != nil {
				return err
			}
			var to payment.Correction
			if to.Amount, err = money.Parse(amount); err != nil {
				return payment.ErrSums
			}
			if to.Fee, err = money.Parse(fee); err != nil {
				return payment.ErrSums
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				v, err := tools.Payments.Review(ctx, id)
				if err != nil {
					return err
				}
				if err := to.Check(v); err != nil {
					return err
				}
				err = f.confirm(cmd, "Correct the payment of NGN %s (%s less the fee of %s) from %q to account %q of tenant %q, under review since %s: %s. "+
					"It is reversed, and NGN %s (%s less the fee of %s) counts in its place, and may be paid out.",
					v.Amount, v.GrossAmount, v.Fee, v.SenderName, v.AccountRef, v.TenantName, stamp(&v.PostedAt), v.Why, to.Amount.Sub(to.Fee), to.Amount, to.Fee)
				if err != nil {
					return err
				}
				done, err := tools.Correct(ctx, id, to, by)
				if err != nil {
					return err
				}
				noteRing(cmd, tools)
				return f.done(cmd, done, "The payment is posted with NGN %s by event %s, and %s; the balance of account %q is NGN %s.",
					done.Amount, done.Replacement, done.Status, v.AccountRef, done.Balance)
			})
		},
	}
	cmd.Flags().StringVar(&amount, "amount", "", "what the payer sent, before the fee")
	cmd.Flags().StringVar(&fee, "fee", "", "what the bank has kept of it")
	f.add(cmd)
	return cmd
}

func (t *tool) newRestoreCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "restore <event>",
		Short: "Post a payment again that was wrongly reversed",
		Long: `For a payment that was reversed because the bank said failed or not found, or took it back, and that the bank's record now says
succeeded. The bank is asked: its record must say success for the same transaction, sum, fee and account. The reversed entry stays as
it is, and a new credit is posted to the same account, once. The tenant is told, and the bank is asked to confirm it as any payment.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
		Example: `  ajo review restore 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank has corrected its record"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the event", args[0])
			if err != nil {
				return err
			}
			by, err := f.by()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				plan, err := tools.PlanRestore(ctx, id)
				if err != nil {
					return err
				}
				err = f.confirm(cmd, "Restore the payment %s of NGN %s (%s less the fee of %s) from %q, which was reversed (%s), and of which the bank's record says success: it counts in the balance again.",
					plan.Record.ID, plan.Amount, plan.Record.Amount, plan.Record.Fee, plan.Event.SenderName, plan.Event.LastError)
				if err != nil {
					return err
				}
				done, err := tools.Restore(ctx, id, by)
				if err != nil {
					return err
				}
				noteRing(cmd, tools)
				return f.done(cmd, done, "The payment is posted with NGN %s by event %s; the bank is asked to confirm it from %s on. The balance of its account is NGN %s.",
					done.Amount, done.Replacement, stamp(&done.Posted.ConfirmAt), done.Balance)
			})
		},
	}
	f.add(cmd)
	return cmd
}
