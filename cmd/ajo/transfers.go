package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/transfer"
	"ajo/ledger"
)

func (t *tool) newTransfersCmd() *cobra.Command {
	return group("transfers", "Show transfers, ask the bank about one now, and end one by hand",
		t.newTransfersListCmd(), t.newTransferShowCmd(), t.newPollCmd(), t.newCancelCmd(), t.newResolveCmd(), t.newChargesCmd(), t.newAdoptCmd())
}

func (t *tool) newTransfersListCmd() *cobra.Command {
	var status, tenantName string
	var differing bool
	return newListCmd(t, listing[transfer.Record]{
		command: command{
			short: "List transfers, newest first", example: "  ajo transfers list --status processing --tenant ops@shop.example",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &status, "status", transfer.Pending, transfer.Processing, transfer.Success, transfer.Failed, transfer.Refunded)
				t.addTenant(cmd, &tenantName, "only this tenant's, by id or e-mail")
				cmd.Flags().BoolVar(&differing, "differing", false, "only those whose record at the bank differs from the books")
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]transfer.Record, page.Info, error) {
			owner, err := tenantID(ctx, tools, tenantName)
			if err != nil {
				return nil, page.Info{}, err
			}
			return tools.Transfers.Records(ctx, transfer.RecordFilter{TenantID: owner, Status: transfer.Status(status), Differing: differing}, r)
		},
		row: func(x transfer.Record, now time.Time) []field {
			return []field{
				{"TRANSFER", x.MerchantTxRef},
				{"AGE", age(now, x.CreatedAt)},
				{"STATUS", string(x.Status)},
				{"AMOUNT", whatLeft(x)},
				{"TENANT", x.TenantName},
				{"ACCOUNT", x.AccountRef},
				{"TO", goesTo(x)},
				{"ATTEMPTS", strconv.Itoa(x.AttemptCount)},
				{"NEXT", stamp(x.NextAttemptAt)},
				{"LAST ERROR", cut(x.LastError, 60)},
			}
		},
	})
}

// goesTo is where a transfer goes, bank and account, as far as that is known.
func goesTo(x transfer.Record) string {
	return cmp.Or(x.BankCode, "?") + "/" + cmp.Or(x.AccountNumber, "?")
}

// whatLeft is a transfer's sum, or the one that left in its place.
func whatLeft(x transfer.Record) string {
	if x.PaidAmount != nil {
		return x.PaidAmount.String() + " of " + x.Amount.String()
	}
	return x.Amount.String()
}

func (t *tool) newTransferShowCmd() *cobra.Command {
	return newShowCmd(t, showing[transfer.Detail]{
		command: command{
			use: "show <merchantTxRef>", short: "Show a transfer with its attempts, its next step and its ledger entries",
			example: "  ajo transfers show AJO0198c0de000070008000000000000001",
		},
		read: func(ctx context.Context, tools *app.Tools, ref string) (transfer.Detail, error) {
			return tools.Transfers.Show(ctx, ref)
		},
		print: printTransfer,
	})
}

func printTransfer(out io.Writer, d transfer.Detail) error {
	attempts := fmt.Sprintf("%d of at most %d", d.AttemptCount, transfer.MaxAttempts)
	if d.SubmittedAt != nil {
		attempts += fmt.Sprintf(", the last at %s; asked about it %d times, not known %d times", stamp(d.SubmittedAt), d.AskCount, d.UnknownCount)
	}
	approvals := "" // none
	if d.ApprovalsNeeded > 0 {
		approvals = fmt.Sprint(d.ApprovalsNeeded)
	}
	err := printFields(
		out,
		field{"transfer", d.MerchantTxRef},
		field{"status", string(d.Status)},
		field{"amount", d.Currency + " " + d.Amount.String()},
		field{"bank's fee", named(d.Currency, d.ProviderFee)},
		field{"vat", named(d.Currency, d.VAT)},
		field{"stamp duty", named(d.Currency, d.StampDuty)},
		field{"borne by", borneBy(d)},
		field{"tenant", d.TenantName + " (" + d.TenantID.String() + ")"},
		field{"account", d.AccountRef + " (" + d.AccountID.String() + ")"},
		field{"to", goesTo(d.Record) + " " + d.AccountName},
		field{"refund of", optional(d.RefundOf)},
		field{"approvals needed", approvals},
		field{"approved", stamp(d.ApprovedAt)},
		field{"narration", d.Narration},
		field{"attempts", attempts},
		field{"last error", d.LastError},
		field{"next step", d.NextStep},
		field{"created", stamp(&d.CreatedAt)},
		field{"updated", stamp(&d.UpdatedAt)},
	)
	if err != nil {
		return err
	}
	if err := printFields(out, outcome(d)...); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return printTable(out, d.Entries, func(e ledger.Entry) []field {
		return []field{
			{"ENTRY", e.ID.String()},
			{"POSTED", stamp(&e.CreatedAt)},
			{"DIRECTION", string(e.Direction)},
			{"KIND", string(e.Kind)},
			{"AMOUNT", e.Amount.String()},
			{"STATUS", string(e.Status)},
			{"REVERSES", optional(e.ReversalOf)},
		}
	})
}

// borneBy says who bears what the bank takes, and how far.
func borneBy(d transfer.Detail) string {
	switch {
	case !d.FeeByTenant:
		return "the platform"
	case d.ReservedFee != nil:
		return "the tenant: " + d.Currency + " " + d.ReservedFee.String() + " is reserved"
	}
	return "the tenant: " + d.Currency + " " + money.Sum(d.TenantFee, d.TenantTaxes).String() + " is debited"
}

// named is a sum that the bank's record may name.
func named(currency string, a *money.Amount) string {
	if a == nil {
		return "not named by the bank"
	}
	return currency + " " + a.String()
}

// outcome is what is known of a transfer's end.
func outcome(d transfer.Detail) []field {
	paid, difference := "", d.Difference
	if d.PaidAmount != nil {
		paid = d.Currency + " " + d.PaidAmount.String()
	}
	switch {
	case d.DiffersSince != nil:
		difference += ", since " + stamp(d.DiffersSince)
	case difference != "":
		difference += ", resolved"
	}
	return []field{
		{"acknowledged", stamp(d.AcknowledgedAt)},
		{"ended by", d.EndedBy},
		{"reason for the tenant", d.FailureReason},
		{"paid amount", paid},
		{"difference", difference},
	}
}

// transferChange changes the transfer that its one argument names.
func (t *tool) transferChange(c command, planFor func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error)) *cobra.Command {
	return t.newChangeCmd(change{command: c, plan: planTransfer(planFor)})
}

// planTransfer is the plan of a change whose one argument names a transfer.
func planTransfer(planFor func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error)) func(context.Context, *app.Tools, []string) (plan, error) {
	return func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
		d, err := tools.Transfers.Show(ctx, args[0])
		if err != nil {
			return plan{}, err
		}
		return planFor(ctx, tools, d)
	}
}

func (t *tool) newPollCmd() *cobra.Command {
	return t.newChangeCmd(change{moves: true, command: command{
		use: "poll <merchantTxRef>", short: "Make a transfer's next step due now",
		long: `Makes a transfer's next step due now instead of at its scheduled time: a pending transfer is submitted if it is covered,
and the bank is asked about any other. The command decides nothing by itself, and ends nothing early.`,
		example: `  ajo transfers poll AJO0198c0de000070008000000000000001 --reason "the bank is up again"`,
	}, plan: planTransfer(func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error) {
		if d.Over() {
			return plan{}, transfer.ErrOver
		}
		return plan{
			will: fmt.Sprintf("Make the next step of transfer %s due now: NGN %s from account %q of tenant %q to %s %s, %s, %d attempts. The step: %s.",
				d.MerchantTxRef, d.Amount, d.AccountRef, d.TenantName, goesTo(d.Record), d.AccountName, d.Status, d.AttemptCount, d.NextStep),
			enqueues: true,
			do: func(by audit.By) (result, error) {
				if err := tools.Transfers.Poll(ctx, d.MerchantTxRef, by); err != nil {
					return result{}, err
				}
				d, err := tools.Transfers.Show(ctx, d.MerchantTxRef)
				return done(d, "The transfer is %s; its next step: %s.", d.Status, d.NextStep), err
			},
		}, nil
	})})
}

func (t *tool) newCancelCmd() *cobra.Command {
	return t.transferChange(command{
		use: "cancel <merchantTxRef>", short: "Cancel a transfer that was never submitted, and return its money to the balance",
		long: `Cancels a pending transfer that was never submitted to the bank: one that waits for money to be confirmed, or whose
destination the bank does not name. Its money is in the balance again, and it becomes failed. A transfer that was submitted can only
be resolved.

Where AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET are set, the bank is asked first, because the books may have lost a
submission: what it has is not cancelled. If it gives no answer, the transfer is cancelled, and the command says so. Then ask again what
the bank has under the reference, before the tenant pays a second time.`,
		example: `  ajo transfers cancel AJO0198c0de000070008000000000000001 --reason "ticket 4711: the tenant withdraws it"`,
	}, func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error) {
		return plan{
			will: fmt.Sprintf("Cancel transfer %s: NGN %s from account %q of tenant %q to %s, %s, %d attempts. Its money is returned to the balance, and it is never sent to the bank.",
				d.MerchantTxRef, d.Amount, d.AccountRef, d.TenantName, goesTo(d.Record), d.Status, d.AttemptCount),
			do: func(by audit.By) (result, error) {
				r, err := tools.Transfers.Cancel(ctx, d.MerchantTxRef, by)
				return ended(r, d), err
			},
		}, nil
	})
}

func ended(r transfer.Resolved, d transfer.Detail) result {
	return done(r, "The transfer is %s; the balance of account %q is NGN %s. What the bank said of it: %s.", r.Status, d.AccountRef, r.Balance, r.BankSays)
}

var errPaidOrNot = errors.New("pass either --paid or --not-paid: what the bank has done")

func (t *tool) newResolveCmd() *cobra.Command {
	var paid, notPaid bool
	var amount sumFlag
	return t.transferChange(command{
		use: "resolve <merchantTxRef>", short: "Book the outcome of a transfer, as the bank has told you",
		long: `For a transfer whose outcome the bank's answers leave open, or whose outcome the bank's record contradicts. Ask the bank first.

--paid: the money has left. A transfer under way becomes success. One that is failed or refunded becomes success with a new debit,
which may bring the balance below zero. With --amount, if another amount has left, that amount is debited instead.
--not-paid: the money has not left, or is back. A transfer under way becomes failed, one that is success becomes refunded, and the
money is in the balance again.
If the books already have this outcome, the difference in the bank's record is marked as resolved.

What the bank's own record states for certain cannot be overridden: the bank is asked first, where AJO_PROVIDER_URL, _ACCOUNT_ID,
_CLIENT_ID and _CLIENT_SECRET are set.`,
		example: `  ajo transfers resolve AJO0198c0de000070008000000000000001 --paid --reason "ticket 4711: the bank's letter of 3 March"
  ajo transfers resolve AJO0198c0de000070008000000000000001 --not-paid --reason "ticket 4711: the bank never had it"`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&paid, "paid", false, "the bank has paid it")
			cmd.Flags().BoolVar(&notPaid, "not-paid", false, "the bank has not paid it, or the money is back")
			addFlag(cmd, &amount, "amount", "with --paid: the amount that left, if it differs from the transfer's")
		},
	}, func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error) {
		if paid == notPaid {
			return plan{}, errPaidOrNot
		}
		to, as := transfer.Resolution{Paid: paid}, "not paid"
		if paid {
			as = "paid"
		}
		if amount.sum != nil {
			if !paid {
				return plan{}, transfer.ErrPaidSum
			}
			to.Amount, as = amount.sum, "paid with NGN "+amount.String()
		}
		sum := d.Amount.String()
		if d.Status == transfer.Success { // what left comes back
			sum = whatLeft(d.Record)
		}
		difference := "The bank's record does not differ from the books."
		if d.Difference != "" {
			difference = title(d.Difference) + "."
		}
		return plan{
			will: fmt.Sprintf("Book transfer %s as %s: NGN %s from account %q of tenant %q to %s, %s, %d attempts. %s",
				d.MerchantTxRef, as, sum, d.AccountRef, d.TenantName, goesTo(d.Record), d.Status, d.AttemptCount, difference),
			do: func(by audit.By) (result, error) {
				r, err := tools.Transfers.Resolve(ctx, d.MerchantTxRef, to, by)
				return ended(r, d), err
			},
		}, nil
	})
}

func (t *tool) newChargesCmd() *cobra.Command {
	var fee sumFlag
	vat, duty := sumFlag{new(money.Zero)}, sumFlag{new(money.Zero)}
	return t.transferChange(command{
		use: "charges <merchantTxRef>", short: "Book the bank's charges for a payout whose record does not name them",
		long: `For a payout that "ajo reconcile" calls payout_fee_unknown, when the bank has told you what it charged. The amounts are booked as if its
record named them, and a record that names them later corrects them. Where AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET are
set, the bank is asked first; what its record names cannot be overridden.`,
		example: `  ajo transfers charges AJO0198c0de000070008000000000000001 --fee 20.00 --vat 1.50 --reason "ticket 4711: the bank's letter of 3 March"`,
		flags: func(cmd *cobra.Command) {
			addFlag(cmd, &fee, "fee", "the bank's fee; 0 where it took none (required)")
			addFlag(cmd, &vat, "vat", "the VAT on it")
			addFlag(cmd, &duty, "stamp-duty", "the stamp duty")
			must(cmd.MarkFlagRequired("fee"))
		},
	}, func(ctx context.Context, tools *app.Tools, d transfer.Detail) (plan, error) {
		c := transfer.Charges{Fee: *fee.sum, VAT: *vat.sum, StampDuty: *duty.sum}
		return plan{
			will: fmt.Sprintf("Book what the bank took for transfer %s, NGN %s, %s, of account %q of tenant %q: fee NGN %s, VAT NGN %s, stamp duty NGN %s.",
				d.MerchantTxRef, d.Amount, d.Status, d.AccountRef, d.TenantName, c.Fee, c.VAT, c.StampDuty),
			do: func(by audit.By) (result, error) {
				if err := tools.Transfers.BookCharges(ctx, d.MerchantTxRef, c, by); err != nil {
					return result{}, err
				}
				d, err := tools.Transfers.Show(ctx, d.MerchantTxRef)
				return done(d, "The charges of transfer %s are booked.", d.MerchantTxRef), err
			},
		}, nil
	})
}

func (t *tool) newAdoptCmd() *cobra.Command {
	var account string
	return t.newChangeCmd(change{
		command: command{
			use: "adopt <merchantTxRef>…", short: "Book payouts that only the bank has",
			long: `For payouts that "ajo reconcile" calls unknown_payout, for example after the database was restored from a backup. Creates the transfer
and its debit from the bank's own record, on the account that the reference names. The workers then ask the bank for its outcome. The
balance may fall below zero. A transfer that the books have as never submitted becomes processing; references that have any other
transfer are skipped, so you can pass a list again. What cannot be adopted is named, and the rest of the list is booked. The reference of
a refund (AJR…) names its payment too: while that is not in the books and confirmed, the refund is left for a later call.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
			example: `  ajo transfers adopt AJO9d520f6a1e2b3c4d0198c0de7b1a7c3e --reason "restored the backup of 02:00"`,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&account, "account", "", "the id of the account that paid, where the reference names none")
			},
		},
		args: cobra.MinimumNArgs(1),
		plan: func(ctx context.Context, tools *app.Tools, refs []string) (plan, error) {
			id := uuid.Nil
			if account != "" {
				var err error
				if id, err = parseID("the account", account); err != nil {
					return plan{}, err
				}
			}
			return plan{
				will: fmt.Sprintf("Book %d payouts that the bank made, each as a debit.", len(refs)), enqueues: true,
				do: func(by audit.By) (result, error) { return adopt(ctx, tools, refs, id, by) },
			}, nil
		},
	})
}

func adopt(ctx context.Context, tools *app.Tools, refs []string, account uuid.UUID, by audit.By) (result, error) {
	var adopted []string
	var left []error
	for i, ref := range refs {
		err := tools.Transfers.Adopt(ctx, ref, account, by)
		switch {
		case err == nil:
			adopted = append(adopted, ref)
			continue
		case errors.Is(err, transfer.ErrKnown):
			continue
		}
		left = append(left, fmt.Errorf("%s: %w", ref, err))
		if errs.As(err) == nil || errors.Is(err, transfer.ErrBank) { // the others would fare no better
			if rest := len(refs) - i - 1; rest > 0 {
				left = append(left, fmt.Errorf("%d more, which were not tried", rest))
			}
			break
		}
	}
	if len(left) > 0 {
		if len(adopted) > 0 && !tools.Enqueued() {
			left = append(left, errNotEnqueued)
		}
		return result{}, fmt.Errorf("%d payouts were booked. Not booked:\n%w", len(adopted), errors.Join(left...))
	}
	return done(adopted, "%d payouts were booked, %d were booked already; the workers ask the bank how they end.", len(adopted), len(refs)-len(adopted)), nil
}
