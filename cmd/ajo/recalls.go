package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/account"
	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/payment"
)

func (t *tool) newRecallsCmd() *cobra.Command {
	return group("recalls", "Show payments that the bank may have taken back, and decide them", t.newRecallsListCmd(), t.newRecallOpenCmd(),
		t.newRecallEndCmd("reverse", "Reverse a payment that the bank took back",
			"Ends a recall, open or watched: the payment is reversed, and the balance may fall below zero. This is final.\n"+
				"Ask the bank first. When its record says that it took the payment back, this happens by itself.",
			"It is reversed, which is final; the balance may fall below zero.", payment.RecallReversed),
		t.newRecallEndCmd("keep", "Keep a payment that the bank has not taken back",
			"Ends a recall, open or watched: the payment stays, and covers settlements again.\nAsk the bank first: the money must be there.",
			"It stays, and covers settlements again.", payment.RecallKept))
}

func (t *tool) newRecallsListCmd() *cobra.Command {
	var status string
	return newListCmd(t, listing[payment.RecallRecord]{
		command: command{
			short: "List recalls, the newest payments first", example: "  ajo recalls list --status open",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &status, "status", payment.RecallOpen, payment.RecallReversed, payment.RecallWatched, payment.RecallKept)
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]payment.RecallRecord, page.Info, error) {
			return tools.Payments.Recalls(ctx, payment.RecallStatus(status), r)
		},
		row: func(v payment.RecallRecord, now time.Time) []field {
			since := ""
			if v.ClosedAt == nil {
				since = age(now, v.OpenedAt)
			}
			return []field{
				{"EVENT", v.EventID.String()},
				{"OPEN SINCE", since},
				{"STATUS", string(v.Status)},
				{"SOURCE", string(v.Source)},
				{"TENANT", v.TenantName},
				{"ACCOUNT", v.AccountRef},
				{"AMOUNT", v.Amount.String()},
				{"HELD", v.Held.String()},
				{"TRANSACTION", v.ProviderTxnRef},
				{"LAST ANSWER", v.LastError},
			}
		},
	})
}

func (t *tool) newRecallOpenCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "open <event>", short: "Hold a payment that the bank may have taken back, and ask the bank",
			long:    "Opens a recall: the payment does not cover settlements until the bank's record says whether it was taken back.\nThe bank is asked by the payment's transaction id; nothing else changes.",
			example: `  ajo recalls open 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank's letter"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			e, err := tools.Payments.InboundEvent(ctx, id)
			if err != nil {
				return plan{}, err
			}
			whose, err := postedTo(ctx, tools, e)
			return plan{
				will: fmt.Sprintf("Hold the payment of %s from %q%s (transaction %s) until the bank's record says whether it was taken back.", grossAndNet(e), e.SenderName, whose, e.ProviderTxnRef),
				do: func(by audit.By) (result, error) {
					if err := tools.Payments.OpenRecallByHand(ctx, id, by); err != nil {
						return result{}, err
					}
					v, err := tools.Payments.Recall(ctx, id)
					return done(v, "NGN %s of account %q is held; the bank is asked.", v.Held, v.AccountRef), err
				},
			}, err
		}),
	})
}

// grossAndNet is the sum of a payment, and what of it came to its account.
func grossAndNet(e payment.InboundEvent) string {
	if e.Amount == nil || e.Fee == nil {
		return "NGN " + optional(e.Amount)
	}
	return fmt.Sprintf("NGN %s, NGN %s after the bank's fee,", e.Amount, e.Amount.Sub(*e.Fee))
}

// postedTo names the account that has a payment, and its tenant; "" for none.
func postedTo(ctx context.Context, tools *app.Tools, e payment.InboundEvent) (string, error) {
	if e.AccountID == nil {
		return "", nil
	}
	a, err := account.ByID(ctx, tools.Pool, *e.AccountID)
	return fmt.Sprintf(" to account %q of tenant %q", a.AccountRef, a.TenantName), err
}

// newRecallEndCmd is one of the two ways to end a recall by hand.
func (t *tool) newRecallEndCmd(name, short, long, effect string, to payment.RecallStatus) *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: name + " <event>", short: short, long: long,
			example: "  ajo recalls " + name + ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: asked the bank"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			v, err := tools.Payments.Recall(ctx, id)
			return plan{
				will: fmt.Sprintf("%s the payment of NGN %s from %q to account %q of tenant %q, said to be taken back since %s: %s. %s",
					title(name), v.Amount, v.SenderName, v.AccountRef, v.TenantName, stamp(&v.OpenedAt), v.LastError, effect),
				do: func(by audit.By) (result, error) {
					r, err := tools.Payments.DecideRecall(ctx, id, to, by)
					return decided(r, v.AccountRef), err
				},
			}, err
		}),
	})
}
