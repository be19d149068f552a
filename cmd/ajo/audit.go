package main

import (
	"context"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
)

func (t *tool) newAuditCmd() *cobra.Command {
	return group("audit", "Look at what was done by hand", t.newAuditListCmd())
}

func (t *tool) newAuditListCmd() *cobra.Command {
	var f listFlags
	var filter audit.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List what operators did, by whom and why, newest first",
		Example: "  ajo audit list --action review.confirm\n  ajo audit list --target event:0198c0de-0000-7000-8000-000000000001",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				records, info, err := tools.Audit(ctx, filter, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, records, info, "AT,ACTOR,ACTION,TARGET,REASON,DETAIL", func(a audit.Record) []string {
					return []string{stamp(&a.At), a.Actor, a.Action, a.Target, a.Reason, cut(string(a.Detail), 120)}
				})
			})
		},
	}
	cmd.Flags().StringVar(&filter.Action, "action", "", "only this action, as events.assign")
	cmd.Flags().StringVar(&filter.Target, "target", "", "only what was done to this, as tenant:<id>")
	f.add(cmd)
	return cmd
}
