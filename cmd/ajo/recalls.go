package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/payment"
)

func (t *tool) newRecallsCmd() *cobra.Command {
	return group("recalls", "Look at payments that the bank may have taken back, and decide them", t.newRecallsListCmd(), t.newRecallOpenCmd(),
		t.newRecallEndCmd("reverse", "Take a payment back, as the bank has",
			"Ends an open recall: the payment is taken back, and the balance may fall below zero. This is final.\nAsk the bank first: its record does this by itself.",
			"It is taken back, which is final; the balance may fall below zero.", (*payment.Service).ReverseRecalled),
		t.newRecallEndCmd("keep", "Keep a payment that the bank has not taken back",
			"Ends an open recall: the payment stays, and covers settlements again.\nAsk the bank first: the money must be there.",
			"It stays, and covers settlements again.", (*payment.Service).KeepRecalled))
}

func (t *tool) newRecallsListCmd() *cobra.Command {
	var f listFlags
	var status string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List recalls, the newest payments first",
		Example: "  ajo recalls list --status open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				recalls, info, err := tools.Payments.Recalls(ctx, payment.RecallStatus(status), r)
				if err != nil {
					return err
				}
				return printList(cmd, f, recalls, info, "EVENT,OPEN SINCE,STATUS,SOURCE,TENANT,ACCOUNT,AMOUNT,HELD,TRANSACTION,LAST ANSWER", func(v payment.RecallRecord) []string {
					return []string{v.EventID.String(), age(v.OpenedAt), string(v.Status), string(v.Source), v.TenantName, v.AccountRef, v.Amount.String(), v.Held.String(), v.ProviderTxnRef, v.LastError}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "open, reversed or kept")
	f.add(cmd)
	return cmd
}

func (t *tool) newRecallOpenCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "open <event>",
		Short:   "Hold a payment that the bank may have taken back, and ask the bank",
		Long:    "Opens a recall: the payment's sum covers no settlement until the bank's record says whether it was taken back.\nThe bank is asked by the payment's transaction id; nothing else changes.",
		Example: `  ajo recalls open 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank's letter"`,
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
				e, err := tools.Payments.InboundEvent(ctx, id)
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "Hold the payment of NGN %s from %q (transaction %s) until the bank's record says whether it was taken back.", gross(e), e.SenderName, e.ProviderTxnRef); err != nil {
					return err
				}
				if err := tools.Payments.OpenRecallByHand(ctx, id, by); err != nil {
					return err
				}
				v, err := tools.Payments.Recall(ctx, id)
				if err != nil {
					return err
				}
				return f.done(cmd, v, "NGN %s of account %q is held; the bank is asked.", v.Held, v.AccountRef)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// newRecallEndCmd is one of the two ways to end a recall by hand.
func (t *tool) newRecallEndCmd(name, short, long, effect string, decide func(*payment.Service, context.Context, uuid.UUID, audit.By) (payment.Reviewed, error)) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     name + " <event>",
		Short:   short,
		Long:    long,
		Example: "  ajo recalls " + name + ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: asked the bank"`,
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
				v, err := tools.Payments.Recall(ctx, id)
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "%s the payment of NGN %s from %q to account %q of tenant %q, said to be taken back since %s: %s. %s",
					title(name), v.Amount, v.SenderName, v.AccountRef, v.TenantName, stamp(&v.OpenedAt), v.LastError, effect); err != nil {
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
