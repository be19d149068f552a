package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/money"
	"ajo/internal/transfer"
)

func (t *tool) newCancelCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "cancel <merchantTxRef>",
		Short: "End a transfer that was never submitted, and give its money back",
		Long: `Ends a pending transfer that was never submitted to the bank, and gives its money back: one that waits for money to be
confirmed, or whose destination the bank does not name. It becomes failed. One that was submitted can only be resolved.`,
		Example: `  ajo transfers cancel AJO0198c0de000070008000000000000001 --reason "ticket 4711: the tenant withdraws it"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				d, err := tools.Transfers.Show(ctx, args[0])
				if err != nil {
					return err
				}
				err = f.confirm(cmd, "Cancel transfer %s: NGN %s from account %q of tenant %q to %s/%s, %s, %d attempts. Its money is given back, and it is never sent to the bank.",
					d.MerchantTxRef, d.Amount, d.AccountRef, d.TenantName, d.BankCode, d.AccountNumber, d.Status, d.AttemptCount)
				if err != nil {
					return err
				}
				r, err := tools.Cancel(ctx, d.MerchantTxRef, by)
				if err != nil {
					return err
				}
				return f.done(cmd, r, "The transfer is %s; the balance of account %q is NGN %s.", r.Status, d.AccountRef, r.Balance)
			})
		},
	}
	f.add(cmd)
	return cmd
}

var errPaidOrNot = errors.New("say what the bank has done: either --paid or --not-paid")

func (t *tool) newResolveCmd() *cobra.Command {
	var f changeFlags
	var paid, notPaid bool
	var amount string
	cmd := &cobra.Command{
		Use:   "resolve <merchantTxRef>",
		Short: "Book what a person has found out about a transfer at the bank",
		Long: `For a transfer that no answer of the bank ends, and for one whose end the bank's record contradicts. Ask the bank first.

--paid: the money has left. One under way becomes success. One that is failed or refunded becomes success with a new debit, which may
bring the balance below zero. With --amount, where another sum has left, that sum is debited in place of the ordered one.
--not-paid: the money has not left, or is back. One under way becomes failed, one that is success becomes refunded, and the money
is in the balance again.
Where the books say so already, the difference that the bank's record shows is marked as dealt with.

What the bank's own record states for certain is not booked otherwise, so the bank is asked, where AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID
and _CLIENT_SECRET are set.`,
		Example: `  ajo transfers resolve AJO0198c0de000070008000000000000001 --paid --reason "ticket 4711: the bank's letter of 3 March"
  ajo transfers resolve AJO0198c0de000070008000000000000001 --not-paid --reason "ticket 4711: the bank never had it"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			if paid == notPaid {
				return errPaidOrNot
			}
			to := transfer.Resolution{Paid: paid}
			if amount != "" {
				sum, err := money.Parse(amount)
				if err != nil || !paid {
					return transfer.ErrPaidSum
				}
				to.Amount = &sum
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				d, err := tools.Transfers.Show(ctx, args[0])
				if err != nil {
					return err
				}
				err = f.confirm(cmd, "Book transfer %s as %s: NGN %s from account %q of tenant %q to %s/%s, %s, %d attempts. %s",
					d.MerchantTxRef, asBooked(to), d.Amount, d.AccountRef, d.TenantName, d.BankCode, d.AccountNumber, d.Status, d.AttemptCount, ofDifference(d))
				if err != nil {
					return err
				}
				r, err := tools.Resolve(ctx, d.MerchantTxRef, to, by)
				if err != nil {
					return err
				}
				return f.done(cmd, r, "The transfer is %s; the balance of account %q is NGN %s.", r.Status, d.AccountRef, r.Balance)
			})
		},
	}
	cmd.Flags().BoolVar(&paid, "paid", false, "the bank has paid it")
	cmd.Flags().BoolVar(&notPaid, "not-paid", false, "the bank has not paid it, or the money is back")
	cmd.Flags().StringVar(&amount, "amount", "", "with --paid: the sum that left, where it is not the one that was ordered")
	f.add(cmd)
	return cmd
}

func asBooked(to transfer.Resolution) string {
	switch {
	case !to.Paid:
		return "not paid"
	case to.Amount != nil:
		return "paid with NGN " + to.Amount.String()
	}
	return "paid"
}

func ofDifference(d transfer.Detail) string {
	if d.Difference == "" {
		return "Nothing that the bank said differs from the books."
	}
	return "Of it " + d.Difference + "."
}
