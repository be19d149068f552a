package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/payment"
)

func (t *tool) newReviewCmd() *cobra.Command {
	return group("review", "Decide payments that the bank's records did not settle", t.newReviewListCmd(),
		t.newDecideCmd("confirm", "Count a payment under review as received",
			"Counts a payment under review as received: it is in the balance again, and may be paid out.\nLook at the bank first: the money must be there.",
			"It counts in the balance again, and may be paid out.", (*payment.Service).ConfirmReviewed),
		t.newDecideCmd("reverse", "Give a payment under review up",
			"Gives a payment under review up: its entry is reversed, and the balance stays without it. This is final.",
			"It is reversed, and the balance stays without it. This is final.", (*payment.Service).ReverseReviewed),
		t.newCorrectCmd(), t.newRestoreCmd())
}

func (t *tool) newReviewListCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the payments under review, newest first",
		Example: "  ajo review list --limit 50",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				reviews, info, err := tools.Payments.Reviews(ctx, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, reviews, info, "EVENT,AGE,TENANT,ACCOUNT,AMOUNT,TRANSACTION,WHY", func(v payment.Review) []string {
					return []string{v.EventID.String(), age(v.PostedAt), v.TenantName, v.AccountRef, v.Amount.String(), v.ProviderTxnRef, v.Why}
				})
			})
		},
	}
	f.add(cmd)
	return cmd
}

// newDecideCmd is one of the two decisions on a payment under review.
func (t *tool) newDecideCmd(name, short, long, effect string, decide func(*payment.Service, context.Context, uuid.UUID, audit.By) (payment.Reviewed, error)) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               name + " <event>",
		ValidArgsFunction: t.reviews(),
		Short:             short,
		Long:              long,
		Example:           "  ajo review " + name + ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: asked the bank"`,
		Args:              cobra.ExactArgs(1),
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
				v, err := tools.Payments.Review(ctx, id)
				if err != nil {
					return err
				}
				err = f.confirm(cmd, "%s the payment of NGN %s (%s less the fee of %s) from %q to account %q of tenant %q, under review since %s: %s. %s",
					title(name), v.Amount, v.GrossAmount, v.Fee, v.SenderName, v.AccountRef, v.TenantName, stamp(&v.PostedAt), v.Why, effect)
				if err != nil {
					return err
				}
				done, err := decide(tools.Payments, ctx, id, by)
				if err != nil {
					return err
				}
				return f.done(cmd, done, "The payment of NGN %s is %s; the balance of account %q is NGN %s.", done.Amount, done.Status, v.AccountRef, done.Balance)
			})
		},
	}
	f.add(cmd)
	return cmd
}
