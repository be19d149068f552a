package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/safehttp"
	"ajo/internal/tenant"
)

func (t *tool) newTenantPolicyCmd() *cobra.Command {
	return group("policy", "Show and set which payouts of a tenant its members must approve", t.newPolicyShowCmd(), t.newPolicySetCmd())
}

// policyShown is what "policy show" prints as JSON.
type policyShown struct {
	Tenant tenant.Record
	Policy tenant.StandingPolicy
}

func (t *tool) newPolicyShowCmd() *cobra.Command {
	return newShowCmd(t, showing[policyShown]{
		command: command{
			use: "show <id or e-mail>", short: "Show which payouts of a tenant its members must approve",
			example: "  ajo tenant policy show ops@shop.example", complete: t.tenants(),
		},
		read: func(ctx context.Context, tools *app.Tools, idOrEmail string) (s policyShown, err error) {
			if s.Tenant, err = tools.Tenants.Find(ctx, idOrEmail); err != nil {
				return s, err
			}
			s.Policy, err = tools.Tenants.PayoutPolicy(ctx, s.Tenant.ID)
			return s, err
		},
		print: func(out io.Writer, s policyShown) error {
			return printFields(
				out,
				field{"tenant", s.Tenant.ID.String()},
				field{"name", s.Tenant.Name},
				field{"approvals", fmt.Sprint(s.Policy.Approvals)},
				field{"of a payout above", limitText(s.Policy.Threshold)},
				field{"of a day above", limitText(s.Policy.DayThreshold)},
				field{"hook", optional(s.Policy.Hook)},
				field{"new beneficiaries wait", fmt.Sprintf("%d hours", s.Policy.WaitHours)},
				field{"members who may approve", fmt.Sprint(s.Policy.Approvers)},
				field{"warning", optional(s.Policy.Warning)},
			)
		},
	})
}

func (t *tool) newPolicySetCmd() *cobra.Command {
	var approvals, wait int
	var above, day limitFlag
	return t.tenantChange(command{
		use: "set <id or e-mail>", short: "Set which payouts of a tenant its members must approve",
		long: `Sets which payouts of a tenant its members (owner and finance) must approve: those above an amount, and those that bring the day's total
above an amount. What you leave out stays as it is, the tenant's hook too; "none" removes an amount, and --approvals 0 removes the policy. It
applies to payouts accepted from then on; those that already wait for approval are not changed. The tenant sees it in its audit log.`,
		example: `  ajo tenant policy set ops@shop.example --approvals 2 --above 500000 --reason "ticket 4711"` + "\n" +
			`  ajo tenant policy set ops@shop.example --approvals 0 --reason "ticket 4712: the owner's letter"`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().IntVar(&approvals, "approvals", -1, "how many members, 1 to 10; 0: no payout needs approval")
			addFlag(cmd, &above, "above", "of one payout")
			addFlag(cmd, &day, "day-above", "of all payouts of a day in Lagos")
			cmd.Flags().IntVar(&wait, "wait-hours", -1, "a payout above --above may go only to a beneficiary that was saved at least this many hours ago; 0: to any account")
		},
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		p, err := tools.Tenants.PayoutPolicy(ctx, r.ID)
		if err != nil {
			return plan{}, err
		}
		hook := p.Hook
		if approvals >= 0 {
			p.Approvals = approvals
		}
		if approvals == 0 {
			p.Threshold, p.DayThreshold, p.Hook, p.WaitHours = nil, nil, nil, 0
		}
		if wait >= 0 {
			p.WaitHours = wait
		}
		p.Threshold, p.DayThreshold = above.or(p.Threshold), day.or(p.DayThreshold)
		if err := p.Check(); err != nil {
			return plan{}, err
		}
		text := "no payout needs approval"
		if p.Approvals > 0 {
			text = fmt.Sprintf("approvals needed: %d, for each payout above %s, and for each that brings the day's total above %s", p.Approvals, limitText(p.Threshold), limitText(p.DayThreshold))
		}
		if p.WaitHours > 0 {
			text += fmt.Sprintf("; those above %s may go only to beneficiaries that were saved at least %d hours ago", limitText(p.Threshold), p.WaitHours)
		}
		switch {
		case p.Hook != nil:
			text += fmt.Sprintf("; its hook %s counts as one of those who approve", safehttp.Shown(*p.Hook))
		case hook != nil:
			text += fmt.Sprintf("; its hook %s is removed", safehttp.Shown(*hook))
		}
		return plan{will: fmt.Sprintf("Set the policy of tenant %s for the payouts that are accepted from now on: %s.", nameAndStatus(r), text), do: func(by audit.By) (result, error) {
			p, err := tools.Tenants.SetPayoutPolicy(ctx, r.ID, p.PayoutPolicy, by)
			if p.Warning != nil {
				text += ". Warning: " + *p.Warning
			}
			return committed(done(policyShown{r, p}, "The policy of tenant %q (%s): %s.", r.Name, r.Email, text), err)
		}}, nil
	})
}
