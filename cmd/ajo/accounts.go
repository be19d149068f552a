package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/account"
	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/ledger"
)

func (t *tool) newAccountsCmd() *cobra.Command {
	return group("accounts", "Look up virtual accounts, close those that do not close by themselves, and release holds",
		t.newAccountFindCmd(), t.newAccountCloseCmd(), t.newDormantCmd(), t.newHoldsCmd(), t.newReleaseHoldCmd())
}

func (t *tool) newAccountFindCmd() *cobra.Command {
	return newShowCmd(t, showing[[]account.Record]{
		command: command{
			use: "find <number>", short: "Find the account that a number belongs to",
			long: `Finds the accounts that have, or had, a number at the bank, newest first, with their tenants and balances.
The bank may issue a number again after it was closed, so there can be several.`,
			example: "  ajo accounts find 9391076543",
		},
		read: func(ctx context.Context, tools *app.Tools, number string) ([]account.Record, error) {
			return account.ByNumber(ctx, tools.Pool, number)
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
	})
}

func (t *tool) newAccountCloseCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "close <account>", short: "Close an account that the bank does not close, or that was never opened",
			long: `Closes an account by hand, in two cases. An expired account that the bank does not confirm as closed: it then counts as closed, and the
bank is not asked again. Ask the bank first: a payment to a number that is still open is misdirected. An account whose provisioning
failed and is not tried again: its row is removed, its reference is free again, and a number that the bank may have opened for it is closed
(needs the settings AJO_PROVIDER_*). An account with money, or with money under way, is refused.`,
			example: `  ajo accounts close 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the bank has closed the number"`,
		},
		plan: planByID("the account", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			a, err := account.Closable(ctx, tools.Pool, tools.Now(), id)
			will := fmt.Sprintf("Close account %q (%s) of tenant %q, expired and not closed at the bank: %s. The bank is not asked again.",
				a.AccountRef, a.BankAccountNumber, a.TenantName, cmp.Or(a.LastError, "it has not answered"))
			if a.Status == account.Provisioning {
				will = fmt.Sprintf("Remove account %q of tenant %q, which was never opened: %s. Its reference is free again.",
					a.AccountRef, a.TenantName, cmp.Or(a.LastError, "its request was interrupted"))
			}
			return plan{will: will, do: func(by audit.By) (result, error) {
				r, atBank, err := tools.CloseAccount(ctx, id, by)
				switch {
				case err != nil:
					return result{}, err
				case atBank != nil:
					return done(r, "Account %q is removed. A number that the bank may have opened under the reference %s is not closed there (%s): close it with the bank.", r.AccountRef, id, atBank), nil
				case r.Status == account.Provisioning:
					return done(r, "Account %q is removed, and the bank has no number for it.", r.AccountRef), nil
				}
				return done(r, "Account %q (%s) is closed.", r.AccountRef, r.BankAccountNumber), nil
			}}, err
		}),
	})
}

func (t *tool) newReleaseHoldCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "release <hold>", short: "Release a hold, including one of a limit, which the tenant cannot release",
			long: `Ends a hold on an account's money: one that the tenant has placed, or one for money above a limit of the customer's tier.
Payouts can use the money unless the bank has not confirmed it yet or may have taken it back, or another limit holds it.
"ajo customers tier" releases what a higher tier allows.`,
			example: `  ajo accounts release 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the source of the money is shown"`,
		},
		plan: planByID("the hold", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			h, err := ledger.FindAnyHold(ctx, tools.Pool, tools.Now(), id)
			if err == nil && h.Status != ledger.HoldOpen {
				err = ledger.ErrHoldEnded
			}
			return plan{
				will:     fmt.Sprintf("Release NGN %s of account %q, held since %s: %s.", h.Amount, h.AccountRef, stamp(&h.CreatedAt), h.Reason),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					h, err := account.ReleaseHoldByHand(ctx, tools.Pool, tools.Now(), id, by)
					return committed(done(h, "The hold of NGN %s is released.", h.Amount), err)
				},
			}, err
		}),
	})
}

func (t *tool) newDormantCmd() *cobra.Command {
	var months int
	return newListCmd(t, listing[account.Dormant]{
		command: command{
			use: "dormant", short: "List accounts without transactions for months", example: "  ajo accounts dormant --months 12",
			flags: func(cmd *cobra.Command) { cmd.Flags().IntVar(&months, "months", 12, "how long, 1 or more") },
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]account.Dormant, page.Info, error) {
			if months < 1 {
				return nil, page.Info{}, fmt.Errorf("--months must be 1 or more, not %d", months)
			}
			return account.ListDormant(ctx, tools.Pool, tools.Now().AddDate(0, -months, 0), r)
		},
		row: func(d account.Dormant, _ time.Time) []field {
			return []field{
				{"ACCOUNT", d.ID.String()},
				{"TENANT", d.TenantName},
				{"REF", d.AccountRef},
				{"NUMBER", d.Number},
				{"STATUS", string(d.Status)},
				{"BALANCE", d.Balance.String()},
				{"OPENED", stamp(&d.CreatedAt)},
				{"LAST MOVEMENT", stamp(d.LastAt)},
			}
		},
	})
}
