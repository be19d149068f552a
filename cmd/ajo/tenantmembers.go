package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/tenant"
)

func (t *tool) newTenantMembersCmd() *cobra.Command {
	return newListCmd(t, listing[tenant.MemberRecord]{
		command: command{
			use: "members <id or e-mail>", short: "List the members of a tenant, newest first",
			long: `Lists who may log in for a tenant, who is invited, and who was removed, newest first. The tenant's owner invites and removes them;
"ajo tenant end-sessions" ends the sessions of all, or of one.`,
			example: "  ajo tenant members ops@shop.example", complete: t.tenants(),
		},
		args: cobra.ExactArgs(1),
		read: ofTenant((*tenant.Service).Members),
		row: func(m tenant.MemberRecord, _ time.Time) []field {
			return []field{
				{"MEMBER", m.ID.String()},
				{"EMAIL", m.Email},
				{"NAME", m.Name},
				{"ROLE", string(m.Role)},
				{"STATUS", string(m.Status)},
				{"TOTP", yesNo(m.TOTP)},
				{"INVITED", stamp(&m.InvitedAt)},
				{"EXPIRES", stamp(m.ExpiresAt)},
				{"JOINED", stamp(m.JoinedAt)},
				{"REMOVED", stamp(m.RemovedAt)},
			}
		},
	})
}

// totpReset is the result of reset-totp as JSON.
type totpReset struct {
	TenantID uuid.UUID
	Member   tenant.Member
}

func (t *tool) newResetTOTPCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "reset-totp <id or e-mail> <member's e-mail>", short: "Turn a member's two-factor authentication off", complete: t.tenants(),
			long: `Turns two-factor authentication off for a member who has lost both the authenticator and the recovery codes, and ends the member's
sessions. First make sure who is asking. The member logs in with the password, and sets it up again. The tenant's audit log records it, and the member gets an e-mail where AJO_SMTP_URL or AJO_MAIL_DIR is set.`,
			example: `  ajo tenant reset-totp ops@shop.example dev@shop.example --reason "ticket 4711: phone lost, called back"`,
		},
		args: cobra.ExactArgs(2),
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			r, err := tools.Tenants.Find(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			return plan{
				will: fmt.Sprintf("Turn two-factor authentication of %s, a member of tenant %s, off, and end the member's sessions.", args[1], nameAndStatus(r)),
				do: func(by audit.By) (result, error) {
					m, err := tools.Tenants.ResetTOTP(ctx, r.ID, args[1], by)
					return done(totpReset{r.ID, m}, "Member %s of tenant %q (%s) logs in with the password alone.", m.Email, r.Name, r.Email), err
				},
			}, nil
		},
	})
}
