package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/transfer"
)

func (t *tool) newAdoptCmd() *cobra.Command {
	var f changeFlags
	var account string
	cmd := &cobra.Command{
		Use:   "adopt <merchantTxRef>…",
		Short: "Take payouts into the books that the bank has and they do not",
		Long: `For payouts that "ajo reconcile" calls unknown_payout, as after the database was restored from a backup: makes the
transfer and its debit from the bank's own record, on the account that the reference names; the workers then ask the bank
and end it. The balance may fall below zero. References that have a transfer are left alone, so a list may be given again.
Needs AJO_PROVIDER_URL, _ACCOUNT_ID, _CLIENT_ID and _CLIENT_SECRET.`,
		Example: `  ajo transfers adopt AJO9d520f6a1e2b3c4d0198c0de7b1a7c3e --reason "restored the backup of 02:00"`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			var id uuid.UUID
			if account != "" {
				if id, err = parseID("the account", account); err != nil {
					return err
				}
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				if err := f.confirm(cmd, "Take %d payouts that the bank made into the books, each as a debit.", len(args)); err != nil {
					return err
				}
				var adopted []string
				for _, ref := range args {
					err := tools.Adopt(ctx, ref, id, by)
					if errors.Is(err, transfer.ErrKnown) {
						continue
					}
					if err != nil {
						return fmt.Errorf("%s: %w", ref, err)
					}
					adopted = append(adopted, ref)
				}
				noteRing(cmd, tools)
				return f.done(cmd, adopted, "%d payouts were taken into the books, %d were there already; the workers ask the bank how they end.", len(adopted), len(args)-len(adopted))
			})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "the id of the account that paid, where the reference names none")
	f.add(cmd)
	return cmd
}
