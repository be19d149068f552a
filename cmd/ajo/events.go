package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/ledger"
)

func (t *tool) newEventsCmd() *cobra.Command {
	return group("events", "Show the bank's events, assign misdirected payments, and repost what could not be posted",
		t.newEventsListCmd(), t.newEventShowCmd(), t.newAssignCmd(), t.newEventRefundCmd(), t.newRepostCmd())
}

func (t *tool) newEventsListCmd() *cobra.Command {
	var q eventQuery
	return newListCmd(t, listing[payment.InboundEvent]{
		command: command{
			short: "List inbound events, newest first",
			example: "  ajo events list --category misdirected\n  ajo events list --transaction API-VACT_TRA-B7B10\n" +
				"  ajo events list --number 9391076543 --amount 5000 --day 2026-01-30\n" +
				"  ajo events list --payer \"amina bello\"",
			flags: q.add,
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]payment.InboundEvent, page.Info, error) {
			return tools.Payments.Events(ctx, q.filter(), r)
		},
		row: func(e payment.InboundEvent, _ time.Time) []field {
			return []field{
				{"EVENT", e.ID.String()},
				{"RECEIVED", stamp(&e.ReceivedAt)},
				{"STATUS", string(e.Status)},
				{"CATEGORY", string(e.Category)},
				{"AMOUNT", optional(e.Amount)},
				{"PAID TO", paidTo(e)},
				{"TRANSACTION", e.ProviderTxnRef},
				{"ERROR", resultOf(e)},
			}
		},
	})
}

// resultOf is why an event was not posted, or the refund of a misdirected one.
func resultOf(e payment.InboundEvent) string {
	if e.ReturnedBy != "" {
		return "it goes back by " + e.ReturnedBy
	}
	return e.ErrorMessage
}

// eventQuery is the filter of a list of events.
type eventQuery struct {
	category, status, transaction, number, payer, session string
	amount                                                sumFlag
	day                                                   dayFlag
}

func (q *eventQuery) add(cmd *cobra.Command) {
	addChoice(cmd, &q.category, "category", payment.CategoryPayment, payment.CategoryMisdirected, payment.CategorySigInvalid, payment.CategoryNonPayment, payment.CategoryProcessingError)
	addChoice(cmd, &q.status, "status", payment.Received, payment.Processed, payment.Ignored, payment.Failed)
	cmd.Flags().StringVar(&q.transaction, "transaction", "", "the bank's transaction id")
	cmd.Flags().StringVar(&q.number, "number", "", "the account number that was paid")
	addFlag(cmd, &q.amount, "amount", "what the payer sent, such as 5000 or 1250.50")
	cmd.Flags().StringVar(&q.payer, "payer", "", "a part of the payer's name")
	cmd.Flags().StringVar(&q.session, "session", "", "the session id of the payment")
	addFlag(cmd, &q.day, "day", "the day of the payment in Lagos, such as 2026-01-30")
}

func (q *eventQuery) filter() payment.EventFilter {
	f := payment.EventFilter{
		Category: payment.Category(q.category), Status: payment.Status(q.status), ProviderTxnRef: q.transaction, Number: q.number, Payer: q.payer, Session: q.session,
		Amount: q.amount.sum,
	}
	if at := q.day.at; !at.IsZero() {
		f.From, f.To = at, at.AddDate(0, 0, 1)
	}
	return f
}

func (t *tool) newEventShowCmd() *cobra.Command {
	return newShowCmd(t, showing[payment.InboundEvent]{
		command: command{
			use: "show <event>", short: "Show an inbound event: what the bank sent, and the result",
			example: "  ajo events show 0198c0de-0000-7000-8000-000000000001",
		},
		read: byID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (payment.InboundEvent, error) {
			return tools.Payments.InboundEvent(ctx, id)
		}),
		print: printEvent,
	})
}

func printEvent(out io.Writer, e payment.InboundEvent) error {
	sum := func(a *money.Amount) string {
		if a == nil {
			return ""
		}
		return e.Currency + " " + a.String()
	}
	var payer ledger.Sender
	if e.Payer != nil {
		payer = *e.Payer
	}
	return printFields(
		out,
		field{"event", e.ID.String()},
		field{"type", e.EventType},
		field{"source", e.Source},
		field{"signature valid", yesNo(e.SignatureValid)},
		field{"status", string(e.Status)},
		field{"category", string(e.Category)},
		field{"why", e.ErrorMessage},
		field{"amount", sum(e.Amount)},
		field{"fee", sum(e.Fee)},
		field{"paid to", paidTo(e)},
		field{"sender", e.SenderName},
		field{"sender by the bank's record", payer.Name},
		field{"sender's account", payer.AccountNumber},
		field{"sender's bank", payer.BankName},
		field{"sender's bank code", payer.BankCode},
		field{"session", payer.SessionID},
		field{"narration", e.Narration},
		field{"transaction", e.ProviderTxnRef},
		field{"paid at", stamp(e.OccurredAt)},
		field{"received", stamp(&e.ReceivedAt)},
		field{"processed", stamp(e.ProcessedAt)},
		field{"tenant", optional(e.TenantID)},
		field{"account", optional(e.AccountID)},
		field{"next attempt", stamp(e.NextAttemptAt)},
		field{"last error", e.LastError},
		field{"possible duplicate of", optional(e.LookAlikeOf)},
		field{"replaces", optional(e.Replaces)},
		field{"goes back by", e.ReturnedBy},
		field{"as it came", cmp.Or(e.Body, "not here any more (ajo archive list)")},
	)
}

// paidTo is the account as the event names it.
func paidTo(e payment.InboundEvent) string {
	if e.AliasNumber == "" || e.Alias == "" {
		return e.Alias + e.AliasNumber
	}
	return e.AliasNumber + " (" + e.Alias + ")"
}

func (t *tool) newAssignCmd() *cobra.Command {
	var accountRef, tenantName string
	return t.newChangeCmd(change{
		command: command{
			use: "assign <event> --account <id or reference> [--tenant <id or e-mail>]", short: "Post a misdirected payment to an account",
			long: `Posts a misdirected payment to an account, active or expired. The account is credited, the tenant notified, and the
bank asked to confirm the payment, as for any payment. Only then can it be paid out. Name the account by its ID, or by its reference and its tenant.
A payment that was posted to the wrong account can be assigned once its credit is reversed (ajo review reverse; ajo recalls open and reverse). The
bank's own record must say success, so this needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: "  ajo events assign 0198c0de-0000-7000-8000-000000000001 --account customer-17 --tenant ops@shop.example \\\n" +
				`    --reason "ticket 4711: the payer sent a receipt"`,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&accountRef, "account", "", "the account's ID, or with --tenant its reference (required)")
				t.addTenant(cmd, &tenantName, "the account's tenant, by id or e-mail")
			},
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			to, err := destination(ctx, tools, accountRef, tenantName)
			if err != nil {
				return plan{}, err
			}
			p, err := tools.Payments.PlanAssign(ctx, id, to)
			if err != nil {
				return plan{}, err
			}
			return plan{
				will: assignSentence(p), enqueues: true,
				do: func(by audit.By) (result, error) {
					posted, err := tools.Payments.Assign(ctx, id, payment.Destination{AccountID: p.AccountID}, by)
					return done(posted, "The payment is posted to account %q; the bank is asked to confirm it from %s on.", p.AccountRef, stamp(&posted.ConfirmAt)), err
				},
			}, nil
		}),
	})
}

func (t *tool) newEventRefundCmd() *cobra.Command {
	var bank, account string
	return t.newChangeCmd(change{
		command: command{
			use: "refund <event> [--bank <code> --account <number>]", short: "Pay a misdirected payment back to its sender",
			long: `Pays a misdirected payment back, or what came back of it, from the account suspense to the sender's account. The bank is asked for its own record of the
sender; what the event says is not used. Before the money leaves, the worker asks the bank who holds that account: if the name differs, the
transfer fails, and the money is in suspense again. After a failed refund you can refund again, to another account of the sender if you name that, or
assign the payment if none of it has gone back. Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: `  ajo events refund 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the payer mistyped the number"`,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&bank, "bank", "", "code of the bank of --account")
				cmd.Flags().StringVar(&account, "account", "", "number of another account of the sender, such as when the one that paid is closed")
				cmd.MarkFlagsRequiredTogether("bank", "account")
			},
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			p, err := tools.Payments.PlanReturn(ctx, id)
			r := p.Record
			to := fmt.Sprintf("account %s at %s (code %q)", r.SenderAccount, r.SenderBank, r.SenderBankCode)
			if bank != "" || account != "" {
				to = fmt.Sprintf("account %s at the bank with the code %q, in place of %s", account, bank, to)
			}
			return plan{
				will:     fmt.Sprintf("Pay NGN %s, which is left of the payment %s of NGN %s, back to %q, %s.", p.Left, r.ID, r.Amount, r.SenderName, to),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					ref, err := tools.Return(ctx, p, bank, account, by)
					return done(struct{ MerchantTxRef string }{ref}, "The payment goes back as the transfer %s: see ajo transfers show %s.", ref, ref), err
				},
			}, err
		}),
	})
}

// destination reads the account's name from the flags.
func destination(ctx context.Context, tools *app.Tools, accountRef, tenantName string) (payment.Destination, error) {
	if accountRef == "" {
		return payment.Destination{}, errors.New("--account is required")
	}
	if tenantName != "" {
		owner, err := tools.Tenants.Find(ctx, tenantName)
		return payment.Destination{TenantID: owner.ID, AccountRef: accountRef}, err
	}
	id, err := uuid.Parse(accountRef)
	if err != nil {
		return payment.Destination{}, errors.New("--account is not an ID: with a reference, name its tenant with --tenant")
	}
	return payment.Destination{AccountID: id}, nil
}

func assignSentence(p payment.Assignment) string {
	e := p.Event
	what := fmt.Sprintf("refused because %q", e.ErrorMessage)
	if p.Again {
		what = fmt.Sprintf("posted, and reversed since (%q)", e.LastError)
	}
	return fmt.Sprintf("Post the payment of NGN %s (fee %s) from %q, sent to %q and %s, to account %q (%s, %s, number %s) of tenant %q. "+
		"NGN %s is credited, the tenant is notified, and the bank is asked to confirm it before it can be paid out.",
		e.Amount, e.Fee, e.SenderName, paidTo(e), what, p.AccountRef, p.AccountType, p.AccountStatus, p.AccountNumber, p.TenantName, e.Amount.Sub(*e.Fee))
}

func (t *tool) newRepostCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "repost <event>", short: "Post an event that could not be posted, from the bank's own record",
			long: `Posts an event of the category processing_error, or one that was held back because it looks like another payment. The bank is
asked for its own record of the transaction. Account, sum and fee are the record's, whatever the event said. The tenant is notified,
and the bank is asked to confirm the payment, as for any payment. Only then can it be paid out. The next reconciliation posts most
of these events by itself. Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: `  ajo events repost 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank has corrected the fee"`,
		},
		plan: planByID("the event", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			p, err := tools.Payments.PlanRepost(ctx, id)
			return plan{
				will: repostSentence(p), enqueues: true,
				do: func(by audit.By) (result, error) {
					posted, err := tools.Payments.Repost(ctx, id, by)
					switch {
					case err != nil:
						return result{}, err
					case posted.Category != payment.CategoryPayment:
						return done(posted, "The event is %s now: it matches no account of ours. See ajo events assign.", posted.Category), nil
					}
					return done(posted, "The payment is posted; the bank is asked to confirm it from %s on.", stamp(&posted.ConfirmAt)), nil
				},
			}, err
		}),
	})
}

func repostSentence(p payment.Repostable) string {
	s := fmt.Sprintf("Post the payment %s of NGN %s (fee %s) from %q to account number %s, which could not be posted because %q, by the bank's own record.",
		p.Record.ID, p.Record.Amount, p.Record.Fee, p.Record.SenderName, p.Record.AccountNumber, p.Event.ErrorMessage)
	if p.Event.LookAlikeOf != nil {
		s += " If it is the same payment as event " + p.Event.LookAlikeOf.String() + ", the money is credited twice."
	}
	return s
}
