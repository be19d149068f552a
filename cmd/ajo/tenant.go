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

func (t *tool) newTenantCmd() *cobra.Command {
	return group("tenant", "Look at tenants, shut them out and let them in", t.newTenantListCmd(), t.newTenantShowCmd(),
		t.newTenantChangeCmd(tenantChange{
			name: "suspend", short: "Refuse a tenant's key and sessions from now on",
			will:    "Suspend tenant %s: its API key is refused from the next request on, and its sessions end. Payments to its accounts are still posted and delivered, and settlements under way reach their end.",
			already: func(r tenant.Record) bool { return r.Status == tenant.Suspended },
			do: func(ctx context.Context, tools *app.Tools, id uuid.UUID, by audit.By) (bool, error) {
				return tools.Tenants.Suspend(ctx, id, by)
			},
			state: "suspended",
		}),
		t.newTenantChangeCmd(tenantChange{
			name: "activate", short: "Let a suspended tenant in again",
			will:    "Activate tenant %s: the API key that it has works again; its sessions have ended, and it logs in anew.",
			already: func(r tenant.Record) bool { return r.Status == tenant.Active },
			do: func(ctx context.Context, tools *app.Tools, id uuid.UUID, by audit.By) (bool, error) {
				return tools.Tenants.Activate(ctx, id, by)
			},
			state: "active",
		}),
		t.newEndSessionsCmd(), t.newOperatorCmd(), t.newRotateSecretCmd(), t.newLoginLinkCmd())
}

func (t *tool) newTenantListCmd() *cobra.Command {
	var f listFlags
	var status string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tenants, newest first",
		Example: "  ajo tenant list --status suspended",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				tenants, info, err := tools.Tenants.List(ctx, status, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, tenants, info, "TENANT,CREATED,NAME,EMAIL,STATUS,KYC,OPERATOR", func(r tenant.Record) []string {
					return []string{r.ID.String(), stamp(&r.CreatedAt), r.Name, r.Email, r.Status, string(r.KYCStatus), yesNo(r.Operator)}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "active or suspended")
	oneOf(cmd, "status", "active", "suspended")
	f.add(cmd)
	return cmd
}

func (t *tool) newTenantShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show <id or e-mail>",
		ValidArgsFunction: t.tenants(),
		Short:             "Show a tenant",
		Example:           "  ajo tenant show ops@shop.example",
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				r, err := tools.Tenants.Find(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, r)
				}
				business := ""
				if r.BusinessType != nil {
					business = *r.BusinessType
				}
				return printFields(cmd.OutOrStdout(),
					field{"tenant", r.ID.String()}, field{"name", r.Name}, field{"email", r.Email},
					field{"status", r.Status}, field{"operator", yesNo(r.Operator)}, field{"business kyc", string(r.KYCStatus)}, field{"business type", business},
					field{"api key", r.APIKeySuffix}, field{"webhook url", r.WebhookURL}, field{"webhook secret", yesNo(r.WebhookSecret)},
					field{"previous secret until", stamp(r.WebhookSecretPreviousUntil)}, field{"created", stamp(&r.CreatedAt)}, field{"updated", stamp(&r.UpdatedAt)})
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// tenantChange is a change of a tenant that may be in force already.
type tenantChange struct {
	name, short string
	will        string // a sentence with %s for the tenant
	state       string // what the tenant is then
	already     func(tenant.Record) bool
	do          func(context.Context, *app.Tools, uuid.UUID, audit.By) (changed bool, err error)
}

// changed is the result of a tenant's change as JSON.
type changed struct {
	Changed bool // false: it was so already, and nothing was recorded
	Tenant  tenant.Record
}

func (t *tool) newTenantChangeCmd(c tenantChange) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               c.name + " <id or e-mail>",
		ValidArgsFunction: t.tenants(),
		Short:             c.short,
		Example:           "  ajo tenant " + c.name + ` ops@shop.example --reason "ticket 4711"`,
		Args:              cobra.ExactArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return t.changeTenant(cmd, f, args[0], c) },
	}
	f.add(cmd)
	return cmd
}

func (t *tool) changeTenant(cmd *cobra.Command, f changeFlags, idOrEmail string, c tenantChange) error {
	by, err := f.by()
	if err != nil {
		return err
	}
	return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
		r, err := tools.Tenants.Find(ctx, idOrEmail)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%q (%s)", r.Name, r.Email)
		if c.already(r) {
			return f.done(cmd, changed{false, r}, "Tenant %s is %s already; nothing was changed.", name, c.state)
		}
		if err := f.confirm(cmd, c.will, nameAndStatus(r)); err != nil {
			return err
		}
		did, err := c.do(ctx, tools, r.ID, by)
		if err != nil {
			return err
		}
		if r, err = tools.Tenants.Find(ctx, r.ID.String()); err != nil {
			return err
		}
		if !did { // somebody else was quicker
			return f.done(cmd, changed{false, r}, "Tenant %s is %s already; nothing was changed.", name, c.state)
		}
		return f.done(cmd, changed{true, r}, "Tenant %s is %s.", name, c.state)
	})
}

func nameAndStatus(r tenant.Record) string {
	return fmt.Sprintf("%q (%s, %s)", r.Name, r.Email, r.Status)
}

// sessionsEnded is the result of end-sessions as JSON.
type sessionsEnded struct {
	TenantID uuid.UUID
	Sessions int64
}

func (t *tool) newEndSessionsCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "end-sessions <id or e-mail>",
		Short: "End all dashboard sessions of a tenant",
		Long: `Ends all dashboard sessions of a tenant, its login links and the codes that were mailed to reset its password, for example when one
was stolen. The tenant logs in again. Its API key goes on: the tenant rotates it, or you suspend the tenant.`,
		Example: `  ajo tenant end-sessions ops@shop.example --reason "ticket 4711: a laptop was stolen"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				r, err := tools.Tenants.Find(ctx, args[0])
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "End all sessions of tenant %s. It logs in again; its API key goes on.", nameAndStatus(r)); err != nil {
					return err
				}
				n, err := tools.Tenants.EndSessions(ctx, r.ID, by)
				if err != nil {
					return err
				}
				return f.done(cmd, sessionsEnded{r.ID, n}, "%d sessions of tenant %q (%s) have ended.", n, r.Name, r.Email)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (t *tool) newOperatorCmd() *cobra.Command {
	var f changeFlags
	var off bool
	cmd := &cobra.Command{
		Use:   "operator <id or e-mail> [--off]",
		Short: "Let a tenant's sessions approve and reject KYC in production, or no longer",
		Example: `  ajo tenant operator ops@house.example --reason "joined the KYC desk"` + "\n" +
			`  ajo tenant operator ops@house.example --off --reason "left the KYC desk"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := tenantChange{
				will: "Make tenant %s an operator: its sessions may approve and reject the KYC of its customers in production.", state: "an operator",
				already: func(r tenant.Record) bool { return r.Operator != off },
				do: func(ctx context.Context, tools *app.Tools, id uuid.UUID, by audit.By) (bool, error) {
					return tools.Tenants.SetOperator(ctx, id, !off, by)
				},
			}
			if off {
				c.will = "Make tenant %s no operator any more: in production its sessions may not approve or reject KYC."
				c.state = "no operator"
			}
			return t.changeTenant(cmd, f, args[0], c)
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "take it away")
	f.add(cmd)
	return cmd
}

// rotated is the result of a rotation as JSON. The secret itself is the tenant's to read.
type rotated struct {
	TenantID      uuid.UUID
	PreviousUntil *time.Time
}

func (t *tool) newRotateSecretCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "rotate-secret <id or e-mail>",
		ValidArgsFunction: t.tenants(),
		Short:             "Give a tenant a new webhook signing secret",
		Long: `Gives a tenant a new webhook signing secret. The one before signs beside it for 24 hours. The secret is not
printed: the tenant reads it with POST /auth/webhook-secret. Needs AJO_ENCRYPTION_KEYS.`,
		Example: `  ajo tenant rotate-secret ops@shop.example --reason "the tenant's secret has leaked"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				if err := tools.CanSeal(); err != nil {
					return err
				}
				r, err := tools.Tenants.Find(ctx, args[0])
				if err != nil {
					return err
				}
				if err := f.confirm(cmd, "Give tenant %s a new webhook signing secret. %s", nameAndStatus(r), rotationEffect(r)); err != nil {
					return err
				}
				until, err := tools.RotateSecret(ctx, r.ID, by)
				if err != nil {
					return err
				}
				text := "Tenant %q (%s) has its first signing secret."
				if until != nil {
					text = "Tenant %q (%s) has a new signing secret; the one before signs beside it until " + stamp(until) + "."
				}
				return f.done(cmd, rotated{r.ID, until}, text+" The tenant reads it with POST /auth/webhook-secret.", r.Name, r.Email)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// rotationEffect says what becomes of the secrets that the tenant has.
func rotationEffect(r tenant.Record) string {
	switch {
	case !r.WebhookSecret:
		return "It has none yet; its deliveries are signed from now on."
	case r.WebhookSecretPreviousUntil != nil && r.WebhookSecretPreviousUntil.After(time.Now()):
		return "The present one signs beside it for 24 hours; the one before that, which was to sign until " +
			stamp(r.WebhookSecretPreviousUntil) + ", stops now."
	}
	return "The present one signs beside it for 24 hours."
}
