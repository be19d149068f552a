package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ajo/internal/account"
	"ajo/internal/app"
)

func (t *tool) newAccountsCmd() *cobra.Command {
	return group("accounts", "Look up virtual accounts", newShowCmd(t, showing[[]account.Record]{
		command: command{
			use: "find <number>", short: "Find the account that a number belongs to",
			long: `Finds the accounts that have, or had, a number at the bank, newest first, with their tenants and balances.
The bank may issue a number again after it was closed, so there can be several.`,
			example: "  ajo accounts find 9391076543",
		},
		read: func(ctx context.Context, tools *app.Tools, number string) ([]account.Record, error) {
			return tools.AccountsByNumber(ctx, number)
		},
		print: func(w io.Writer, found []account.Record) error {
			return printTable(w, found, func(a account.Record) []field {
				return []field{
					{"ACCOUNT", a.ID.String()},
					{"TENANT", fmt.Sprintf("%s (%s)", a.TenantName, a.TenantEmail)},
					{"REFERENCE", a.AccountRef},
					{"HOLDER", a.BankAccountName},
					{"TYPE", string(a.Type)},
					{"STATUS", string(a.Status)},
					{"OPENED", stamp(&a.CreatedAt)},
					{"BALANCE", a.Balance.String()},
				}
			})
		},
	}))
}
