package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/page"
	"ajo/internal/transfer"
)

func (t *tool) newTenantBeneficiariesCmd() *cobra.Command {
	return newListCmd(t, listing[transfer.Beneficiary]{
		command: command{
			use: "beneficiaries <id or e-mail>", short: "List the beneficiaries of a tenant, newest first",
			long: `Lists the bank accounts that a tenant has saved to pay out to, newest first: the holder that the bank named, who saved it, and whether
the tenant's owner has exempted it from the approval of payouts. Only the tenant changes them.`,
			example: "  ajo tenant beneficiaries ops@shop.example", complete: t.tenants(),
		},
		args: cobra.ExactArgs(1),
		read: func(ctx context.Context, tools *app.Tools, args []string, r page.Request) ([]transfer.Beneficiary, page.Info, error) {
			found, err := tools.Tenants.Find(ctx, args[0])
			if err != nil {
				return nil, page.Info{}, err
			}
			return tools.Transfers.Beneficiaries(ctx, found.ID, r)
		},
		row: func(b transfer.Beneficiary, _ time.Time) []field {
			return []field{
				{"BENEFICIARY", b.ID.String()},
				{"LABEL", b.Label},
				{"BANK", b.BankCode},
				{"ACCOUNT", b.AccountNumber},
				{"HOLDER", b.AccountName},
				{"EXEMPT", yesNo(b.Exempt)},
				{"SAVED", stamp(&b.SavedAt)},
				{"BY", b.SavedBy},
			}
		},
	})
}
