package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ajo/internal/account"
	"ajo/internal/app"
)

func (t *tool) newAccountsCmd() *cobra.Command {
	return group("accounts", "Look at virtual accounts", t.newAccountsFindCmd())
}

func (t *tool) newAccountsFindCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "find <number>",
		Short: "Find whose account a number is",
		Long: `Finds the accounts that have, or had, a number at the bank, newest first, with their tenants and balances.
The bank may issue a number again after it was closed, so there can be several.`,
		Example: "  ajo accounts find 9391076543",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				found, err := tools.AccountsByNumber(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, found)
				}
				rows := make([][]string, len(found))
				for i, a := range found {
					rows[i] = row(a)
				}
				return printTable(cmd.OutOrStdout(), "ACCOUNT,TENANT,REFERENCE,HOLDER,TYPE,STATUS,OPENED,BALANCE", rows)
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func row(a account.Record) []string {
	return []string{
		a.ID.String(), fmt.Sprintf("%s (%s)", a.TenantName, a.TenantEmail), a.AccountRef, a.BankAccountName, string(a.Type), string(a.Status), stamp(&a.CreatedAt), a.Balance.String(),
	}
}
