package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/fee"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
)

func (t *tool) newTenantCmd() *cobra.Command {
	return group("tenant", "Show tenants, suspend and activate them", t.newTenantListCmd(), t.newTenantShowCmd(),
		t.newSuspendCmd(), t.newActivateCmd(), t.newCloseTenantCmd(), t.newTenantLimitsCmd(), t.newTenantPolicyCmd(), t.newEndSessionsCmd(), t.newOperatorCmd(), t.newPayoutFeeCmd(), t.newRotateSecretCmd(), t.newLoginLinkCmd(),
		t.newTenantMembersCmd(), t.newTenantBeneficiariesCmd(), t.newResetTOTPCmd(), t.newTenantKeysCmd(), t.newRevokeKeyCmd())
}

func (t *tool) newTenantListCmd() *cobra.Command {
	var status string
	return newListCmd(t, listing[tenant.Record]{
		command: command{
			short: "List tenants, newest first", example: "  ajo tenant list --status suspended",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &status, "status", tenant.Active, tenant.Suspended, tenant.Closed)
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]tenant.Record, page.Info, error) {
			return tools.Tenants.List(ctx, status, r)
		},
		row: func(r tenant.Record, _ time.Time) []field {
			return []field{
				{"TENANT", r.ID.String()},
				{"CREATED", stamp(&r.CreatedAt)},
				{"NAME", r.Name},
				{"EMAIL", r.Email},
				{"STATUS", r.Status},
				{"KYC", string(r.KYCStatus)},
				{"OPERATOR", yesNo(r.Operator)},
			}
		},
	})
}

// shownTenant is a tenant with the prices that hold for it now, and what awaits its members.
type shownTenant struct {
	tenant.Record
	PaymentPrice, PayoutPrice *fee.Standing // nil: none
	AwaitingApproval          transfer.Awaiting
}

func (t *tool) newTenantShowCmd() *cobra.Command {
	return newShowCmd(t, showing[shownTenant]{
		command: command{use: "show <id or e-mail>", short: "Show a tenant", example: "  ajo tenant show ops@shop.example", complete: t.tenants()},
		read: func(ctx context.Context, tools *app.Tools, idOrEmail string) (r shownTenant, err error) {
			if r.Record, err = tools.Tenants.Find(ctx, idOrEmail); err != nil {
				return r, err
			}
			if r.PaymentPrice, r.PayoutPrice, err = tools.Prices.Standing(ctx, r.ID); err != nil {
				return r, err
			}
			r.AwaitingApproval, err = tools.Transfers.AwaitingApproval(ctx, r.ID)
			return r, err
		},
		print: func(out io.Writer, r shownTenant) error {
			return printFields(
				out,
				field{"tenant", r.ID.String()},
				field{"name", r.Name},
				field{"email", r.Email},
				field{"status", r.Status},
				field{"operator", yesNo(r.Operator)},
				field{"payout fee borne by", string(r.PayoutFeeBy)},
				field{"price of a payment", standingText(r.PaymentPrice)},
				field{"price of a payout", standingText(r.PayoutPrice)},
				field{"payouts awaiting approval", awaitingText(r.AwaitingApproval)},
				field{"business kyc", string(r.KYCStatus)},
				field{"business type", optional(r.BusinessType)},
				field{"api key", r.APIKeySuffix},
				field{"webhook url", r.WebhookURL},
				field{"webhook secret", yesNo(r.WebhookSecret)},
				field{"previous secret until", stamp(r.WebhookSecretPreviousUntil)},
				field{"created", stamp(&r.CreatedAt)},
				field{"updated", stamp(&r.UpdatedAt)},
			)
		},
	})
}

// awaitingText is empty where nothing awaits approval.
func awaitingText(a transfer.Awaiting) string {
	if a.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d, NGN %s in all", a.Count, a.Amount)
}

// ofTenant reads a list of the tenant that the one argument names.
func ofTenant[T any](read func(*tenant.Service, context.Context, uuid.UUID, page.Request) ([]T, page.Info, error)) func(context.Context, *app.Tools, []string, page.Request) ([]T, page.Info, error) {
	return func(ctx context.Context, tools *app.Tools, args []string, r page.Request) ([]T, page.Info, error) {
		found, err := tools.Tenants.Find(ctx, args[0])
		if err != nil {
			return nil, page.Info{}, err
		}
		return read(tools.Tenants, ctx, found.ID, r)
	}
}

// tenantChange changes the tenant that its one argument names.
func (t *tool) tenantChange(c command, planFor func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error)) *cobra.Command {
	c.complete = t.tenants()
	return t.newChangeCmd(change{command: c, plan: planByTenant(planFor)})
}

// planByTenant plans a change of the tenant that the first argument names.
func planByTenant(planFor func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error)) func(context.Context, *app.Tools, []string) (plan, error) {
	return func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
		r, err := tools.Tenants.Find(ctx, args[0])
		if err != nil {
			return plan{}, err
		}
		return planFor(ctx, tools, r)
	}
}

// changed is the result of a switch as JSON.
type changed struct {
	Changed bool // false: it was so already, and nothing was recorded
	Tenant  tenant.Record
}

// tenantSwitch is a change of a tenant that may have been made already.
type tenantSwitch struct {
	on    bool   // it was made already
	will  string // a sentence with %s for the tenant
	state string // what the tenant is then
	tasks bool   // tasks follow (plan.enqueues)
	do    func(ctx context.Context, id uuid.UUID, by audit.By) (changed bool, err error)
}

func (s tenantSwitch) plan(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
	name := fmt.Sprintf("%q (%s)", r.Name, r.Email)
	already := func(r tenant.Record) result {
		return result{value: changed{false, r}, text: fmt.Sprintf("Tenant %s is already %s; nothing was changed.", name, s.state)}
	}
	if s.on {
		same := already(r)
		return plan{noChange: &same}, nil
	}
	return plan{
		will: fmt.Sprintf(s.will, nameAndStatus(r)), enqueues: s.tasks,
		do: func(by audit.By) (result, error) {
			did, err := s.do(ctx, r.ID, by)
			left, err := committed(result{}, err)
			if err != nil {
				return result{}, err
			}
			after, err := tools.Tenants.Find(ctx, r.ID.String())
			if err != nil && left.note != "" { // what has failed may fail this reading too
				after, err = r, nil
				after.Status = s.state
			}
			out := already(after) // somebody else was quicker
			if did {
				out = done(changed{true, after}, "Tenant %s is %s.", name, s.state)
			}
			out.note = left.note
			return out, err
		},
	}, nil
}

func nameAndStatus(r tenant.Record) string {
	return fmt.Sprintf("%q (%s, %s)", r.Name, r.Email, r.Status)
}

func (t *tool) newSuspendCmd() *cobra.Command {
	return t.newChangeCmd(change{moves: true, command: command{
		use: "suspend <id or e-mail>", short: "Refuse a tenant's API keys and sessions from now on", complete: t.tenants(),
		example: `  ajo tenant suspend ops@shop.example --reason "ticket 4711"`,
	}, plan: planByTenant(func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		if r.Status == tenant.Suspended { // perhaps by a run that ended before what was open then
			if err := freeze.AwaitSubmissions(ctx, tools.Pool); err != nil {
				return plan{}, err
			}
		}
		return tenantSwitch{
			on: r.Status == tenant.Suspended, state: "suspended", do: tools.Tenants.Suspend,
			will: "Suspend tenant %s: its API key is refused from the next request on, and its sessions end. Payments to its accounts are still posted and delivered. Settlements that are at the bank are completed; the others stay pending until it is active again, but those that await approval fail 24 hours after they were accepted.",
		}.plan(ctx, tools, r)
	})})
}

func (t *tool) newActivateCmd() *cobra.Command {
	return t.tenantChange(command{
		use: "activate <id or e-mail>", short: "Activate a suspended tenant", example: `  ajo tenant activate ops@shop.example --reason "ticket 4711"`,
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		s := tenantSwitch{
			on: r.Status == tenant.Active, state: "active", tasks: true, do: tools.Tenants.Activate,
			will: "Activate tenant %s: its API key works again, and its pending settlements go on. Its sessions have ended, so it must log in again.",
		}
		if r.Status == tenant.Closed {
			s.will = "Open tenant %s again: it has no API key and no open account, and must log in."
		} else if open, err := tools.Tenants.OpenAccounts(ctx, r.ID); err != nil {
			return plan{}, err
		} else if open == 0 { // perhaps by a close that has begun
			s.will += " It has no open account."
		}
		return s.plan(ctx, tools, r)
	})
}

func (t *tool) newOperatorCmd() *cobra.Command {
	var off bool
	return t.tenantChange(command{
		use: "operator <id or e-mail> [--off]", short: "Allow a tenant's sessions to approve and reject KYC in production, or withdraw that",
		example: `  ajo tenant operator ops@house.example --reason "joined the KYC desk"` + "\n" +
			`  ajo tenant operator ops@house.example --off --reason "left the KYC desk"`,
		flags: func(cmd *cobra.Command) { cmd.Flags().BoolVar(&off, "off", false, "withdraw it") },
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		s := tenantSwitch{
			on: r.Operator != off, state: "an operator",
			will: "Make tenant %s an operator: its sessions may approve and reject the KYC of its customers in production.",
			do: func(ctx context.Context, id uuid.UUID, by audit.By) (bool, error) {
				return tools.Tenants.SetOperator(ctx, id, !off, by)
			},
		}
		if off {
			s.will = "Tenant %s is no longer an operator: in production its sessions may not approve or reject KYC."
			s.state = "not an operator"
		}
		return s.plan(ctx, tools, r)
	})
}

func (t *tool) newPayoutFeeCmd() *cobra.Command {
	var bearer string
	return t.tenantChange(command{
		use: "payout-fee <id or e-mail> --by platform|tenant", short: "Set who bears the bank's charges for a tenant's payouts",
		long: `Sets who bears what the bank charges for a tenant's payouts: its fee, VAT and stamp duty. It applies to payouts accepted from then on.

platform (the default): the tenant is debited the amount of the payout only.
tenant: when a settlement is accepted, the expected fee is debited with its amount, and the balance must cover both. When the payout ends,
the fee is corrected to the bank's own record. The platform bears what the account cannot: payout_fee_short of "ajo reconcile".`,
		example: `  ajo tenant payout-fee ops@shop.example --by tenant --reason "contract of 3 March"`,
		flags: func(cmd *cobra.Command) {
			addChoice(cmd, &bearer, "by", tenant.PlatformBears, tenant.TenantBears)
		},
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		to := tenant.FeeBearer(bearer)
		if to != tenant.PlatformBears && to != tenant.TenantBears {
			return plan{}, errBearer
		}
		s := tenantSwitch{
			on: r.PayoutFeeBy == to, state: "charged what the bank takes for its payouts",
			will: "Charge tenant %s what the bank charges for each payout that is accepted from now on.",
			do: func(ctx context.Context, id uuid.UUID, by audit.By) (bool, error) {
				return tools.Tenants.SetPayoutFee(ctx, id, to, by)
			},
		}
		if to == tenant.PlatformBears {
			s.will = "Have the platform bear what the bank takes for each payout of tenant %s that is accepted from now on."
			s.state = "not charged what the bank takes for its payouts"
		}
		return s.plan(ctx, tools, r)
	})
}

var errBearer = errors.New("--by must be platform or tenant")

// sessionsEnded is the result of end-sessions as JSON.
type sessionsEnded struct {
	TenantID uuid.UUID
	Sessions int64
}

func (t *tool) newEndSessionsCmd() *cobra.Command {
	var member string
	return t.tenantChange(command{
		use: "end-sessions <id or e-mail>", short: "End all dashboard sessions of a tenant, or of one of its members",
		long: `Ends all dashboard sessions of a tenant, its login links, and the codes that were mailed to reset its password, for example when
a laptop was stolen. All its members must log in again. Its API key keeps working: the tenant can rotate it, or you suspend the tenant.
With --member, only those of that member end.`,
		example: `  ajo tenant end-sessions ops@shop.example --reason "ticket 4711: a laptop was stolen"
  ajo tenant end-sessions ops@shop.example --member dev@shop.example --reason "ticket 4711: a laptop was stolen"`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&member, "member", "", "e-mail of the one `member` whose sessions end")
		},
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		will := fmt.Sprintf("End all sessions of tenant %s. It must log in again; its API key keeps working.", nameAndStatus(r))
		of := "tenant"
		if member != "" {
			will = fmt.Sprintf("End all sessions of %s, a member of tenant %s. The member must log in again.", member, nameAndStatus(r))
			of = member + " of tenant"
		}
		return plan{
			will: will,
			do: func(by audit.By) (result, error) {
				n, err := tools.Tenants.EndSessions(ctx, r.ID, member, by)
				return done(sessionsEnded{r.ID, n}, "%d sessions of %s %q (%s) have ended.", n, of, r.Name, r.Email), err
			},
		}, nil
	})
}

// rotated is the result of a rotation as JSON. The secret itself is the tenant's to read.
type rotated struct {
	TenantID      uuid.UUID
	PreviousUntil *time.Time
}

func (t *tool) newRotateSecretCmd() *cobra.Command {
	return t.tenantChange(command{
		use: "rotate-secret <id or e-mail>", short: "Give a tenant a new webhook signing secret",
		long: `Gives a tenant a new webhook signing secret. For 24 hours, deliveries are signed with the previous one too. The
secret is not printed: the tenant reads it with POST /auth/webhook-secret. Needs AJO_ENCRYPTION_KEYS.`,
		example: `  ajo tenant rotate-secret ops@shop.example --reason "the tenant's secret has leaked"`,
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		if err := tools.CanSeal(); err != nil {
			return plan{}, err
		}
		return plan{
			will: fmt.Sprintf("Give tenant %s a new webhook signing secret. %s", nameAndStatus(r), rotationEffect(r, tools.Now())),
			do: func(by audit.By) (result, error) {
				until, err := tools.RotateSecret(ctx, r, by)
				if err != nil {
					return result{}, err
				}
				secret := "its first signing secret."
				if until != nil {
					secret = "a new signing secret; deliveries are signed with the previous one too until " + stamp(until) + "."
				}
				return done(rotated{r.ID, until}, "Tenant %q (%s) has %s The tenant reads it with POST /auth/webhook-secret.", r.Name, r.Email, secret), nil
			},
		}, nil
	})
}

// rotationEffect says what happens to the secrets that the tenant has.
func rotationEffect(r tenant.Record, now time.Time) string {
	switch {
	case !r.WebhookSecret:
		return "It has none yet; its deliveries are signed from now on."
	case r.WebhookSecretPreviousUntil != nil && r.WebhookSecretPreviousUntil.After(now):
		return "For 24 hours, deliveries are signed with the present one too; the one before that, which was to sign until " +
			r.WebhookSecretPreviousUntil.UTC().Format(time.RFC3339Nano) + ", stops now." // two rotations may be of one second
	}
	return "For 24 hours, deliveries are signed with the present one too."
}

// link is a login link as JSON.
type link struct {
	TenantID uuid.UUID
	URL      string
	Expires  time.Time
}

func (t *tool) newLoginLinkCmd() *cobra.Command {
	var base string
	return t.newChangeCmd(change{
		command: command{
			use: "login-link <id or e-mail>", short: "Create a link that opens a tenant's dashboard once, without its password", complete: t.tenants(),
			long: `Creates a link that opens a tenant's dashboard once, within 10 minutes, without its password. Whoever has the link can open it: give it
only to the tenant. It is printed, and stored nowhere.`,
			example: `  ajo tenant login-link ops@shop.example --reason "ticket 4711: password lost" --url https://pay.example`,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&base, "url", "", "where the tenant reaches the API (default: AJO_HTTP_ADDR of this machine)")
			},
		},
		unasked: true,
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			at := cmp.Or(base, "http://"+cmp.Or(t.getenv("AJO_HTTP_ADDR"), "127.0.0.1:8080"))
			if u, err := url.Parse(at); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return plan{}, fmt.Errorf("--url must be an http or https URL, such as https://pay.example, not %q", at)
			}
			r, err := tools.Tenants.Find(ctx, args[0])
			return plan{do: func(by audit.By) (result, error) {
				token, expires, err := tools.Tenants.LoginLink(ctx, r.ID, by)
				l := link{TenantID: r.ID, URL: app.DashboardLink(at, token), Expires: expires}
				return result{
					value: l, text: l.URL, note: fmt.Sprintf("Opens the dashboard of tenant %q (%s) once, until %s:", r.Name, r.Email, stamp(&expires)),
				}, err
			}}, err
		},
	})
}
