package main

import (
	"context"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/page"
	"ajo/internal/tenant"
)

func (t *tool) newTenantMembersCmd() *cobra.Command {
	return newListCmd(t, listing[tenant.MemberRecord]{
		command: command{
			use: "members <id or e-mail>", short: "List the members of a tenant, newest first",
			long: `Lists who may log in for a tenant, or is invited to, newest first, those that were removed too. The tenant's owner invites and removes them;
"ajo tenant end-sessions" ends the sessions of all.`,
			example: "  ajo tenant members ops@shop.example", complete: t.tenants(),
		},
		args: cobra.ExactArgs(1),
		read: func(ctx context.Context, tools *app.Tools, args []string, r page.Request) ([]tenant.MemberRecord, page.Info, error) {
			found, err := tools.Tenants.Find(ctx, args[0])
			if err != nil {
				return nil, page.Info{}, err
			}
			return tools.Tenants.Members(ctx, found.ID, r)
		},
		row: func(m tenant.MemberRecord) []field {
			return []field{
				{"MEMBER", m.ID.String()},
				{"EMAIL", m.Email},
				{"NAME", m.Name},
				{"ROLE", string(m.Role)},
				{"STATUS", string(m.Status)},
				{"INVITED", stamp(&m.InvitedAt)},
				{"EXPIRES", stamp(m.ExpiresAt)},
				{"JOINED", stamp(m.JoinedAt)},
				{"REMOVED", stamp(m.RemovedAt)},
			}
		},
	})
}
