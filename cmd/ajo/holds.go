package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/ledger"
)

func (t *tool) newHoldsCmd() *cobra.Command {
	var source, name string
	var older time.Duration
	filter := func(ctx context.Context, tools *app.Tools) (f ledger.HoldFilter, err error) {
		if older < 0 {
			return f, fmt.Errorf("--older must be zero or more, such as 72h, not %s", older)
		}
		if older > 0 {
			f.Before = tools.Now().Add(-older)
		}
		f.Source = ledger.HoldSource(source)
		f.TenantID, err = tenantID(ctx, tools, name)
		return f, err
	}
	cmd := newListCmd(t, listing[ledger.AnyHold]{
		command: command{
			use: "holds", short: "List open holds of all tenants, newest first, or their sums",
			long: `Lists the open holds: those that tenants have placed, and those of tier limits (limit), of payments that an account's policy holds
(policy) or pays back (refund), and of shares of recalled payments (recall). What is held of a recalled payment itself is no hold: "ajo recalls list" shows it.
--summary adds the holds up by tenant and source, and in total.`,
			example: "  ajo accounts holds --source policy --older 72h\n  ajo accounts holds --summary --tenant ops@shop.example",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &source, "source", ledger.HeldByTenant, ledger.HeldByLimit, ledger.HeldByPolicy, ledger.HeldForRefund, ledger.HeldByRecall)
				t.addTenant(cmd, &name, "only this tenant's, by id or e-mail")
				cmd.Flags().DurationVar(&older, "older", 0, "only what has been held for at least this long, such as 72h")
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]ledger.AnyHold, page.Info, error) {
			f, err := filter(ctx, tools)
			if err != nil {
				return nil, page.Info{}, err
			}
			return ledger.ListHolds(ctx, tools.Pool, tools.Now(), f, r)
		},
		row: func(h ledger.AnyHold, now time.Time) []field {
			return []field{
				{"HOLD", h.ID.String()},
				{"AGE", age(now, h.CreatedAt)},
				{"TENANT", cut(h.TenantName, 30)},
				{"REF", h.AccountRef},
				{"AMOUNT", h.Amount.String()},
				{"SOURCE", string(h.Source)},
				{"UNTIL", stamp(h.Until)},
				{"REASON", cut(h.Reason, 60)},
			}
		},
	})
	return addSummary(t, cmd, "sum up by tenant and source, instead of the list", []string{"limit", "after"}, showing[heldInAll]{
		read: func(ctx context.Context, tools *app.Tools, _ string) (all heldInAll, err error) {
			f, err := filter(ctx, tools)
			if err != nil {
				return all, err
			}
			all.at = tools.Now()
			all.Items, err = ledger.SumHolds(ctx, tools.Pool, all.at, f)
			for _, s := range all.Items {
				all.Count, all.Total = all.Count+s.Count, all.Total.Add(s.Amount)
			}
			return all, err
		},
		print: printHoldSums,
	})
}

// heldInAll is the sums of holds with their total, as JSON.
type heldInAll struct {
	Items []ledger.HoldSum `json:"items"`
	Count int64            `json:"count"`
	Total money.Amount     `json:"total"`
	at    time.Time
}

func printHoldSums(w io.Writer, all heldInAll) error {
	return printTable(w, append(all.Items, ledger.HoldSum{TenantName: "all", Count: all.Count, Amount: all.Total}), func(s ledger.HoldSum) []field {
		oldest := ""
		if !s.Oldest.IsZero() {
			oldest = age(all.at, s.Oldest)
		}
		return []field{
			{"TENANT", cut(s.TenantName, 30)},
			{"SOURCE", string(s.Source)},
			{"HOLDS", strconv.FormatInt(s.Count, 10)},
			{"SUM", s.Amount.String()},
			{"OLDEST", oldest},
		}
	})
}
