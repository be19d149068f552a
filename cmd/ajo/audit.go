package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
)

func (t *tool) newAuditCmd() *cobra.Command {
	var filter audit.Filter
	return group("audit", "Show what operators did", newListCmd(t, listing[audit.Record]{
		command: command{
			short:   "List what operators did, by whom and why, newest first",
			example: "  ajo audit list --action review.confirm\n  ajo audit list --target event:0198c0de-0000-7000-8000-000000000001",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&filter.Action, "action", "", "only this action, such as events.assign")
				cmd.Flags().StringVar(&filter.Target, "target", "", "only what was done to this, such as tenant:<id>")
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]audit.Record, page.Info, error) {
			return audit.List(ctx, tools.Pool, filter, r)
		},
		row: func(a audit.Record, _ time.Time) []field {
			return []field{{"AT", stamp(&a.At)}, {"ACTOR", a.Actor}, {"ACTION", a.Action}, {"TARGET", a.Target}, {"REASON", a.Reason}, {"DETAIL", cut(string(a.Detail), 120)}}
		},
	}))
}
