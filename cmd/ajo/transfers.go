package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/transfer"
)

func (t *tool) newTransfersCmd() *cobra.Command {
	return group("transfers", "Look at settlements, ask about one now, and end one by hand", t.newTransfersListCmd(), t.newTransferShowCmd(), t.newPollCmd(), t.newCancelCmd(), t.newResolveCmd(), t.newAdoptCmd())
}

func (t *tool) newTransfersListCmd() *cobra.Command {
	var f listFlags
	var status, tenantName string
	var differing bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List transfers, newest first",
		Example: "  ajo transfers list --status processing --tenant ops@shop.example",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				owner, err := tenantID(ctx, tools, tenantName)
				if err != nil {
					return err
				}
				transfers, info, err := tools.Transfers.Records(ctx, transfer.RecordFilter{TenantID: owner, Status: transfer.Status(status), Differing: differing}, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, transfers, info, "TRANSFER,AGE,STATUS,AMOUNT,TENANT,ACCOUNT,TO,ATTEMPTS,NEXT,LAST ERROR", func(x transfer.Record) []string {
					return []string{
						x.MerchantTxRef, age(x.CreatedAt), string(x.Status), x.Amount.String(), x.TenantName, x.AccountRef, x.BankCode + "/" + x.AccountNumber,
						strconv.Itoa(x.AttemptCount), stamp(x.NextAttemptAt), cut(x.LastError, 60),
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "pending, processing, success, failed or refunded")
	cmd.Flags().StringVar(&tenantName, "tenant", "", "only this tenant's, by id or e-mail")
	cmd.Flags().BoolVar(&differing, "differing", false, "only those whose record at the bank says what the books do not")
	oneOf(cmd, "status", "pending", "processing", "success", "failed", "refunded")
	t.ofTenant(cmd)
	f.add(cmd)
	return cmd
}

func (t *tool) newTransferShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show <merchantTxRef>",
		Short:   "Show a transfer with its attempts, its next step and its ledger entries",
		Example: "  ajo transfers show AJO0198c0de000070008000000000000001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				d, err := tools.Transfers.Show(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, d)
				}
				return printTransfer(cmd, d)
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func printTransfer(cmd *cobra.Command, d transfer.Detail) error {
	attempts := fmt.Sprintf("%d of at most %d", d.AttemptCount, transfer.MaxAttempts)
	if d.SubmittedAt != nil {
		attempts += fmt.Sprintf(", the last at %s; asked about it %d times, not known %d times", stamp(d.SubmittedAt), d.AskCount, d.UnknownCount)
	}
	fee := "not known yet"
	if d.ProviderFee != nil {
		fee = d.Currency + " " + d.ProviderFee.String()
	}
	err := printFields(cmd.OutOrStdout(),
		field{"transfer", d.MerchantTxRef}, field{"status", string(d.Status)}, field{"amount", d.Currency + " " + d.Amount.String()}, field{"bank's fee", fee},
		field{"tenant", d.TenantName + " (" + d.TenantID.String() + ")"}, field{"account", d.AccountRef + " (" + d.AccountID.String() + ")"},
		field{"to", d.BankCode + "/" + d.AccountNumber + " " + d.AccountName}, field{"narration", d.Narration}, field{"attempts", attempts},
		field{"last error", d.LastError}, field{"next step", d.NextStep}, field{"created", stamp(&d.CreatedAt)}, field{"updated", stamp(&d.UpdatedAt)})
	if err != nil {
		return err
	}
	if err := printFields(cmd.OutOrStdout(), ofEnd(d)...); err != nil {
		return err
	}
	rows := make([][]string, len(d.Entries))
	for i, e := range d.Entries {
		reverses := ""
		if e.ReversalOf != nil {
			reverses = e.ReversalOf.String()
		}
		rows[i] = []string{e.ID.String(), stamp(&e.CreatedAt), string(e.Direction), e.Amount.String(), string(e.Status), reverses}
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return printTable(cmd.OutOrStdout(), "ENTRY,POSTED,DIRECTION,AMOUNT,STATUS,REVERSES", rows)
}

// ofEnd is what is known of a transfer's outcome, where there is something.
func ofEnd(d transfer.Detail) (fields []field) {
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, field{name, value})
		}
	}
	if d.AcknowledgedAt != nil {
		add("acknowledged", stamp(d.AcknowledgedAt))
	}
	add("ended by", d.EndedBy)
	add("tenant reads", d.FailureReason)
	if d.PaidAmount != nil {
		add("really paid", d.Currency+" "+d.PaidAmount.String())
	}
	switch {
	case d.DiffersSince != nil:
		add("difference", d.Difference+", since "+stamp(d.DiffersSince))
	case d.Difference != "":
		add("difference", d.Difference+", dealt with")
	}
	return fields
}

func (t *tool) newPollCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "poll <merchantTxRef>",
		Short: "Make a transfer's next step due now",
		Long: `Makes a transfer's next step due now instead of at its scheduled time: a pending one looks for cover and
is submitted, any other is asked about at the bank. It decides nothing by itself, and hurries no end.`,
		Example: `  ajo transfers poll AJO0198c0de000070008000000000000001 --reason "the bank is up again"`,
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
				if d.Over() {
					return transfer.ErrOver
				}
				err = f.confirm(cmd, "Make the next step of transfer %s due now: NGN %s from account %q of tenant %q to %s/%s %s, %s, %d attempts. The step: %s.",
					d.MerchantTxRef, d.Amount, d.AccountRef, d.TenantName, d.BankCode, d.AccountNumber, d.AccountName, d.Status, d.AttemptCount, d.NextStep)
				if err != nil {
					return err
				}
				if err := tools.Poll(ctx, d.MerchantTxRef, by); err != nil {
					return err
				}
				noteRing(cmd, tools)
				if d, err = tools.Transfers.Show(ctx, d.MerchantTxRef); err != nil {
					return err
				}
				return f.done(cmd, d, "The transfer is %s; its next step: %s.", d.Status, d.NextStep)
			})
		},
	}
	f.add(cmd)
	return cmd
}
