package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/payment"
)

func (t *tool) newRepostCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "repost <event>",
		Short: "Post an event that could not be posted, from the bank's own record",
		Long: `Posts an event of the category processing_error, or one that was held back as it looked like another payment. The bank is asked
for its own record of the transaction; account, sum and fee are the record's, whatever the event said. The tenant is told, and the
bank is asked to confirm it as for any payment. Only then can it be paid out. Most are posted by the next reconciliation by
themselves. Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
		Example: `  ajo events repost 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank has corrected the fee"`,
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
				plan, err := tools.PlanRepost(ctx, id)
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "%s", repostSentence(plan)); err != nil {
					return err
				}
				posted, err := tools.Repost(ctx, id, by)
				if err != nil {
					return err
				}
				noteRing(cmd, tools)
				if posted.Category != payment.CategoryPayment {
					return f.done(cmd, posted, "It is %s now: no account of ours takes it. See ajo events assign.", posted.Category)
				}
				return f.done(cmd, posted, "The payment is posted; the bank is asked to confirm it from %s on.", stamp(&posted.ConfirmAt))
			})
		},
	}
	f.add(cmd)
	return cmd
}

func repostSentence(p payment.Repostable) string {
	s := fmt.Sprintf("Post the payment %s of NGN %s (fee %s) from %q to account number %s, which could not be posted because %q, by the bank's own record.",
		p.Record.ID, p.Record.Amount, p.Record.Fee, p.Record.SenderName, p.Record.AccountNumber, p.Event.ErrorMessage)
	if p.Event.LookAlikeOf != nil {
		s += " If it is the same payment as that one, the money is credited twice."
	}
	return s
}
