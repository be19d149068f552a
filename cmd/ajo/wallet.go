package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/transfer"
)

func (t *tool) newWalletCmd() *cobra.Command {
	return group("wallet", "Say which account at the bank the books belong to", t.newWalletMoveCmd())
}

func (t *tool) newWalletMoveCmd() *cobra.Command {
	var to transfer.Wallet
	return t.newChangeCmd(change{
		command: command{
			use: "move <account id>", short: "Move the books to another account at the bank, or the bank's API to another host",
			long: `Says which account at the bank the books belong to, as AJO_PROVIDER_ACCOUNT_ID and the host of AJO_PROVIDER_URL name it from now on. Each
start of the service recorded it until the first account of a customer was opened. Since then a process with other settings does not start: another
account knows none of the payouts that this one has made, and they would be paid again. Stop all APIs and workers first. Another account is refused while
payments or submitted payouts wait for an answer about the previous one (ajo work list), or misdirected payments are in suspense; for another host of the same account nothing has to end.`,
			example: `  ajo wallet move 0b9c2f6e-9d0e-4b8e-8f7e-2f6c1a3d5e7f --host api.nomba.com --reason "the bank has a new address"`,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&to.Host, "host", "", "the host of the bank's API, as in AJO_PROVIDER_URL")
				must(cmd.MarkFlagRequired("host"))
			},
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			to.AccountID = args[0]
			is, err := transfer.ReadWallet(ctx, tools.Pool)
			if err != nil {
				return plan{}, err
			}
			before := "so far of none"
			if is != (transfer.Wallet{}) {
				before = "so far of " + is.String()
			}
			if is == to {
				return plan{noChange: new(done(to, "The books are of %s already.", to))}, nil
			}
			return plan{will: fmt.Sprintf("The books are of %s from now on, %s.", to, before), do: func(by audit.By) (result, error) {
				if err := transfer.MoveWallet(ctx, tools.Pool, tools.Now(), to, by); err != nil {
					return result{}, err
				}
				return done(to, "The books are of %s.", to), nil
			}}, nil
		},
	})
}
