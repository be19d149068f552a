package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/payment"
)

func (t *tool) newEventsCmd() *cobra.Command {
	return group("events", "Look at what the bank told us, assign what found no account, and post what could not be posted", t.newEventsListCmd(), t.newEventShowCmd(), t.newAssignCmd(),
		t.newRepostCmd())
}

func (t *tool) newEventsListCmd() *cobra.Command {
	var f listFlags
	var q eventQuery
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List inbound events, newest first",
		Example: "  ajo events list --category misdirected\n  ajo events list --transaction API-VACT_TRA-B7B10\n" +
			"  ajo events list --number 9391076543 --amount 5000 --day 2026-01-30",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			filter, err := q.filter()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				events, info, err := tools.Payments.Events(ctx, filter, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, events, info, "EVENT,RECEIVED,STATUS,CATEGORY,AMOUNT,PAID TO,TRANSACTION,ERROR", func(e payment.InboundEvent) []string {
					return []string{e.ID.String(), stamp(&e.ReceivedAt), string(e.Status), string(e.Category), gross(e), paidTo(e), e.ProviderTxnRef, e.ErrorMessage}
				})
			})
		},
	}
	q.add(cmd)
	f.add(cmd)
	return cmd
}

// eventQuery is what a list of events is narrowed by.
type eventQuery struct{ category, status, transaction, number, amount, day string }

func (q *eventQuery) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&q.category, "category", "", "payment, misdirected, sig_invalid, non_payment_event or processing_error")
	cmd.Flags().StringVar(&q.status, "status", "", "received, processed, ignored or failed")
	cmd.Flags().StringVar(&q.transaction, "transaction", "", "the bank's transaction id")
	cmd.Flags().StringVar(&q.number, "number", "", "the account number that was paid")
	cmd.Flags().StringVar(&q.amount, "amount", "", "what the payer sent, in naira, as 5000 or 1250.50")
	cmd.Flags().StringVar(&q.day, "day", "", "the day of the payment in Lagos, as 2026-01-30")
	oneOf(cmd, "category", string(payment.CategoryPayment), string(payment.CategoryMisdirected), string(payment.CategorySigInvalid), string(payment.CategoryNonPayment), string(payment.CategoryProcessingError))
	oneOf(cmd, "status", string(payment.Received), string(payment.Processed), string(payment.Ignored), string(payment.Failed))
}

func (q *eventQuery) filter() (payment.EventFilter, error) {
	f := payment.EventFilter{Category: payment.Category(q.category), Status: payment.Status(q.status), ProviderTxnRef: q.transaction, Number: q.number}
	if q.amount != "" {
		a, err := money.Parse(q.amount)
		if err != nil {
			return f, errors.New("--amount must be in naira with at most two decimals, as 5000 or 1250.50")
		}
		f.Amount = &a
	}
	if q.day != "" {
		at, err := time.ParseInLocation(time.DateOnly, q.day, clock.Lagos)
		if err != nil {
			return f, errors.New("--day must be a date, as 2026-01-30")
		}
		f.From, f.To = at, at.AddDate(0, 0, 1)
	}
	return f, nil
}

func (t *tool) newEventShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show <event>",
		Short:   "Show an inbound event: what the bank said, and what became of it",
		Example: "  ajo events show 0198c0de-0000-7000-8000-000000000001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the event", args[0])
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				e, err := tools.Payments.InboundEvent(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, e)
				}
				return printEvent(cmd.OutOrStdout(), e)
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func printEvent(out io.Writer, e payment.InboundEvent) error {
	id := func(u *uuid.UUID) string {
		if u == nil {
			return ""
		}
		return u.String()
	}
	fee := ""
	if e.Fee != nil {
		fee = e.Currency + " " + e.Fee.String()
	}
	sum := gross(e)
	if sum != "" {
		sum = e.Currency + " " + sum
	}
	return printFields(out,
		field{"event", e.ID.String()}, field{"type", e.EventType}, field{"source", e.Source}, field{"signature valid", yesNo(e.SignatureValid)},
		field{"status", string(e.Status)}, field{"category", string(e.Category)}, field{"why", e.ErrorMessage},
		field{"amount", sum}, field{"fee", fee}, field{"paid to", paidTo(e)}, field{"sender", e.SenderName}, field{"narration", e.Narration},
		field{"transaction", e.ProviderTxnRef}, field{"paid at", stamp(e.OccurredAt)}, field{"received", stamp(&e.ReceivedAt)}, field{"processed", stamp(e.ProcessedAt)},
		field{"tenant", id(e.TenantID)}, field{"account", id(e.AccountID)}, field{"next attempt", stamp(e.NextAttemptAt)}, field{"last error", e.LastError},
		field{"may be a repeat of", id(e.LookAlikeOf)}, field{"in the place of", id(e.Replaces)})
}

func gross(e payment.InboundEvent) string {
	if e.Amount == nil {
		return ""
	}
	return e.Amount.String()
}

// paidTo is the account as the event names it.
func paidTo(e payment.InboundEvent) string {
	if e.AliasNumber == "" || e.Alias == "" {
		return e.Alias + e.AliasNumber
	}
	return e.AliasNumber + " (" + e.Alias + ")"
}

func (t *tool) newAssignCmd() *cobra.Command {
	var f changeFlags
	var accountRef, tenantName string
	cmd := &cobra.Command{
		Use:   "assign <event> --account <id or reference> [--tenant <id or e-mail>]",
		Short: "Post a misdirected payment to an account",
		Long: `Posts a misdirected payment to an account, active or expired: it is credited, the tenant is told,
and the bank is asked to confirm it as for any payment. Only then can it be paid out.
The account is named by its ID, or by its reference and its tenant.`,
		Example: "  ajo events assign 0198c0de-0000-7000-8000-000000000001 --account customer-17 --tenant ops@shop.example \\\n" +
			`    --reason "ticket 4711: the payer sent a receipt"`,
		Args: cobra.ExactArgs(1),
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
				to, err := destination(ctx, tools, accountRef, tenantName)
				if err != nil {
					return err
				}
				plan, err := tools.Payments.PlanAssign(ctx, id, to)
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "%s", assignSentence(plan)); err != nil {
					return err
				}
				posted, err := tools.Assign(ctx, id, payment.Destination{AccountID: plan.AccountID}, by)
				if err != nil {
					return err
				}
				noteRing(cmd, tools)
				return f.done(cmd, posted, "The payment is posted to account %q; the bank is asked to confirm it from %s on.", plan.AccountRef, stamp(&posted.ConfirmAt))
			})
		},
	}
	cmd.Flags().StringVar(&accountRef, "account", "", "the account's ID, or with --tenant its reference (required)")
	cmd.Flags().StringVar(&tenantName, "tenant", "", "the account's tenant, by id or e-mail")
	t.ofTenant(cmd)
	f.add(cmd)
	return cmd
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
		return payment.Destination{}, errors.New("--account is no ID: name the tenant of the reference with --tenant")
	}
	return payment.Destination{AccountID: id}, nil
}

func assignSentence(p payment.Assignment) string {
	e := p.Event
	s := fmt.Sprintf("Post the payment of NGN %s (fee %s) from %q, sent to %q and refused because %q, to account %q (%s, %s, number %s) of tenant %q.",
		e.Amount, e.Fee, e.SenderName, paidTo(e), e.ErrorMessage, p.AccountRef, p.AccountType, p.AccountStatus, p.AccountNumber, p.TenantName)
	return s + fmt.Sprintf(" NGN %s is credited, the tenant is told, and the bank is asked to confirm it before it can be paid out.", e.Amount.Sub(*e.Fee))
}
