package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/ledger"
)

func (t *tool) newReviewCmd() *cobra.Command {
	return group("review", "Decide payments that the bank's records did not settle", t.newReviewListCmd(), t.newReviewShowCmd(),
		t.newDecideCmd("confirm", "Count a payment under review as received",
			"Counts a payment under review as received: it is in the balance again, and may be paid out.\nAsk the bank first: the money must be there.",
			"It counts in the balance again, and may be paid out.", ledger.EventConfirm),
		t.newDecideCmd("reverse", "Give up a payment under review",
			"Rejects a payment under review: its entry is reversed, and it never enters the balance. This is final.",
			"It is reversed, and the balance stays without it. This is final.", ledger.EventReverse),
		t.newCorrectCmd(), t.newRestoreCmd(), t.newSenderCmd())
}

func (t *tool) newReviewListCmd() *cobra.Command {
	return newListCmd(t, listing[payment.Review]{
		command: command{short: "List the payments under review, newest first", example: "  ajo review list --limit 50"},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]payment.Review, page.Info, error) {
			return tools.Payments.Reviews(ctx, r)
		},
		row: func(v payment.Review, now time.Time) []field {
			return []field{
				{"EVENT", v.EventID.String()},
				{"AGE", age(now, v.PostedAt)},
				{"TENANT", v.TenantName},
				{"ACCOUNT", v.AccountRef},
				{"AMOUNT", v.Amount.String()},
				{"TRANSACTION", v.ProviderTxnRef},
				{"WHY", v.Why},
			}
		},
	})
}

func (t *tool) newReviewShowCmd() *cobra.Command {
	return newShowCmd(t, showing[payment.Compared]{
		command: command{
			use: "show <event>", short: "Show a payment with the bank's record of it beside ours", complete: t.reviews(),
			long: `Asks the bank for its record of a payment, and shows it beside ours. It decides nothing.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET to ask; without them ours is shown alone.`,
			example: "  ajo review show 0198c0de-0000-7000-8000-000000000001",
		},
		read: byID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (payment.Compared, error) {
			return tools.Payments.Compare(ctx, id)
		}),
		print: printCompared,
	})
}

func printCompared(w io.Writer, c payment.Compared) error {
	e := c.Event
	state := string(e.Status)
	if c.Review != nil {
		state = "under review: " + c.Review.Why
	}
	rows := [][3]string{
		{"status", state, c.NoBank},
		{"transaction", e.ProviderTxnRef, ""},
		{"amount", optional(e.Amount), ""},
		{"fee", optional(e.Fee), ""},
		{"account number", e.AliasNumber, ""},
		{"reference", e.Alias, ""},
		{"sender", e.SenderName, ""},
		{"narration", e.Narration, ""},
		{"at", stamp(e.OccurredAt), ""},
	}
	if b := c.Bank; b != nil {
		for i, v := range []string{string(b.Status), b.ID, b.Amount.String(), b.Fee.String(), b.AccountNumber, b.AccountRef, b.SenderName, b.Narration, stamp(&b.Time)} {
			rows[i][2] = v
		}
	}
	return printTable(w, rows, func(r [3]string) []field { return []field{{"", r[0]}, {"OURS", r[1]}, {"THE BANK'S", r[2]}} })
}

// decided says what a decision made of a payment to an account.
func decided(r payment.Reviewed, accountRef string) result {
	return done(r, "The payment of NGN %s is %s; the balance of account %q is NGN %s.%s", r.Amount, r.Status, accountRef, r.Balance, withoutSender(r.NoSender))
}

// withoutSender says that a payment was confirmed without its sender, and why.
func withoutSender(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" Its sender is not on record (%s): it cannot be refunded before \"ajo review sender\".", why)
}

// underReview says which payment is meant.
func underReview(v payment.Review) string {
	state := "under review"
	if v.Status == ledger.Reversed {
		state = "reversed; posted"
	}
	return fmt.Sprintf("the payment of NGN %s (%s less the fee of %s) from %q to account %q of tenant %q, %s since %s: %s.",
		v.Amount, v.GrossAmount, v.Fee, v.SenderName, v.AccountRef, v.TenantName, state, stamp(&v.PostedAt), v.Why)
}

// newDecideCmd is one of the two decisions on a payment under review.
func (t *tool) newDecideCmd(name, short, long, effect string, event ledger.Event) *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: name + " <event>", short: short, long: long, complete: t.reviews(),
			example: "  ajo review " + name + ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: asked the bank"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			v, err := tools.Payments.Review(ctx, id)
			return plan{
				will: title(name) + " " + underReview(v) + " " + effect,
				do: func(by audit.By) (result, error) {
					r, err := tools.Payments.DecideReview(ctx, id, event, by)
					return decided(r, v.AccountRef), err
				},
			}, err
		}),
	})
}

func (t *tool) newCorrectCmd() *cobra.Command {
	var amount, fee sumFlag
	return t.newChangeCmd(change{
		command: command{
			use: "correct <event>", short: "Count a payment with its true sum", complete: t.reviews(),
			long: `For a payment whose true amount is neither the event's nor zero: one under review, or a reversed one that, by the bank's
record, succeeded with another amount. Ask the bank first: the money must be there. An entry under review is reversed. A
credit of the amount less the fee is posted in its place, once, and is confirmed at once: it is in the balance, and may be
paid out. The tenant is notified of both.`,
			example: `  ajo review correct 0198c0de-0000-7000-8000-000000000001 --amount 5000.00 --fee 10.00 --reason "ticket 4711: the bank's letter"`,
			flags: func(cmd *cobra.Command) {
				addFlag(cmd, &amount, "amount", "what the payer sent, before the fee (required)")
				addFlag(cmd, &fee, "fee", "what the bank kept of it (required)")
				must(cmd.MarkFlagRequired("amount"))
				must(cmd.MarkFlagRequired("fee"))
			},
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			to := payment.Correction{Amount: *amount.sum, Fee: *fee.sum}
			v, err := tools.Payments.Correctable(ctx, id)
			if err != nil {
				return plan{}, err
			}
			if err := to.Validate(v); err != nil {
				return plan{}, err
			}
			return plan{
				will: fmt.Sprintf("Correct %s It is reversed, and NGN %s (%s less the fee of %s) counts in its place, and may be paid out.",
					underReview(v), to.Amount.Sub(to.Fee), to.Amount, to.Fee),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					r, err := tools.Payments.Correct(ctx, id, to, by)
					return done(r, "The payment is posted with NGN %s by event %s, and %s; the balance of account %q is NGN %s.%s",
						r.Amount, r.Replacement, r.Status, v.AccountRef, r.Balance, withoutSender(r.NoSender)), err
				},
			}, nil
		}),
	})
}

func (t *tool) newRestoreCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "restore <event>", short: "Post a wrongly reversed payment again",
			long: `For a payment that was reversed because the bank reported it failed, not found or taken back, and whose record at the bank now
says that it succeeded. The bank is asked: its record must say success for the same transaction, sum, fee and account. The reversed entry stays as
it is, and a new credit is posted to the same account, once. The tenant is notified, and the bank is asked to confirm the new credit.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: `  ajo review restore 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank has corrected its record"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			p, err := tools.Payments.PlanRestore(ctx, id)
			return plan{
				will: fmt.Sprintf("Restore the payment %s of NGN %s (%s less the fee of %s) from %q, which was reversed (%s), and of which the bank's record says success: it counts in the balance again.",
					p.Record.ID, p.Amount, p.Record.Amount, p.Record.Fee, p.Event.SenderName, p.Event.LastError),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					r, err := tools.Payments.RestoreReversed(ctx, id, by)
					return done(r, "The payment is posted with NGN %s by event %s; the bank is asked to confirm it from %s on. The balance of its account is NGN %s.",
						r.Amount, r.Replacement, stamp(&r.Posted.ConfirmAt), r.Balance), err
				},
			}, err
		}),
	})
}

func (t *tool) newSenderCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "sender <event>", short: "Read the sender of a payment that a person confirmed from the bank's record",
			long: `For a payment that was confirmed by "ajo review confirm" or "correct" while the bank's record could not be read: without its
sender it cannot be refunded. The bank is asked, and what its record says is kept, once.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: `  ajo review sender 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the tenant wants to refund it"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			s, err := tools.Payments.Sender(ctx, id)
			if err != nil {
				return plan{}, err
			}
			e, err := tools.Payments.InboundEvent(ctx, id)
			if err != nil {
				return plan{}, err
			}
			whose, err := postedTo(ctx, tools, e)
			return plan{
				will: fmt.Sprintf("Keep %q, account %s at %q (%s), as the sender of the payment %s of NGN %s%s, as the bank's record says: refunds of it go there.",
					s.Name, s.AccountNumber, s.BankName, s.BankCode, e.ProviderTxnRef, optional(e.Amount), whose),
				do: func(by audit.By) (result, error) {
					return done(s, "The sender of the payment is on record."), tools.Payments.RecordSender(ctx, id, s, by)
				},
			}, err
		}),
	})
}
