package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/customer"
	"ajo/internal/page"
)

func (t *tool) newCustomersCmd() *cobra.Command {
	const example = ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: papers seen"`
	return group(
		"customers", "Decide the KYC of customers of any tenant, and suspend customers", t.newCustomersReviewCmd(), t.newCustomersShowCmd(),
		t.kycDecision(command{use: "approve <customer>", short: "Approve a KYC that waits for review", example: "  ajo customers approve" + example},
			"Approve the KYC of %s: it moves to tier 2.", customer.KYCApprove),
		t.kycDecision(command{use: "reject <customer>", short: "Reject a KYC that waits for review", example: "  ajo customers reject" + example},
			"Reject the KYC of %s: it stays at tier 1, and may submit again.", customer.KYCReject),
		t.newCustomerTierCmd(),
		t.customerChange(command{use: "suspend <customer>", short: "Suspend a customer: no new accounts and no KYC", example: "  ajo customers suspend" + example},
			"Suspend %s: it gets no new account and may not submit KYC. Its accounts stay open: money still arrives, and may be paid out.",
			func(ctx context.Context, s *customer.Service, shown customer.Record, by audit.By) (customer.Customer, bool, error) {
				return s.SetStatus(ctx, shown.ID, customer.Suspended, by)
			}),
		t.customerChange(command{use: "activate <customer>", short: "End the suspension of a customer", example: "  ajo customers activate" + example},
			"Activate %s: it may get accounts and submit KYC again.",
			func(ctx context.Context, s *customer.Service, shown customer.Record, by audit.By) (customer.Customer, bool, error) {
				return s.SetStatus(ctx, shown.ID, customer.Active, by)
			}),
	)
}

func (t *tool) newCustomersReviewCmd() *cobra.Command {
	return newListCmd(t, listing[customer.Record]{
		command: command{
			use: "review", short: "List the customers of all tenants whose KYC waits for review, newest first",
			example: "  ajo customers review --limit 50",
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]customer.Record, page.Info, error) {
			return tools.Customers.Reviews(ctx, r)
		},
		row: func(c customer.Record, now time.Time) []field {
			return []field{
				{"CUSTOMER", c.ID.String()},
				{"AGE", age(now, c.UpdatedAt)},
				{"TENANT", c.TenantName},
				{"REFERENCE", c.ExternalRef},
				{"NAME", c.Name},
				{"NIN", last4(c.NINLast4)},
				{"SAME NIN", strconv.Itoa(c.SameNIN)},
			}
		},
	})
}

func last4(digits *string) string {
	if digits == nil {
		return ""
	}
	return "…" + *digits
}

func (t *tool) newCustomersShowCmd() *cobra.Command {
	return newShowCmd(t, showing[customer.Record]{
		command: command{
			use: "show <customer>", short: "Show a customer of any tenant",
			example: "  ajo customers show 0198c0de-0000-7000-8000-000000000001",
		},
		read: byID("the customer", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (customer.Record, error) {
			return tools.Customers.Show(ctx, id)
		}),
		print: func(out io.Writer, c customer.Record) error {
			return printFields(
				out,
				field{"customer", c.ID.String()},
				field{"name", c.Name},
				field{"tenant", fmt.Sprintf("%s (%s)", c.TenantName, c.TenantID)},
				field{"reference", c.ExternalRef},
				field{"status", string(c.Status)},
				field{"kyc", fmt.Sprintf("%s, tier %d", c.KYCStatus, c.KYCTier)},
				field{"bvn", last4(c.BVNLast4)},
				field{"nin", last4(c.NINLast4)},
				field{"others approved with this nin", strconv.Itoa(c.SameNIN)},
				field{"approved despite them", yesNo(c.NINShared)},
				field{"created", stamp(&c.CreatedAt)},
				field{"updated", stamp(&c.UpdatedAt)},
			)
		},
	})
}

// changedCustomer is the result as JSON.
type changedCustomer struct {
	Changed  bool // false: it was so already, and nothing was recorded
	Customer customer.Customer
}

// customerChanger changes a customer, and reports whether it was otherwise before.
type customerChanger func(ctx context.Context, s *customer.Service, shown customer.Record, by audit.By) (customer.Customer, bool, error)

// customerChange changes one customer; will is a sentence with %s for the customer.
func (t *tool) customerChange(c command, will string, do customerChanger) *cobra.Command {
	return t.newChangeCmd(change{command: c, plan: planByID("the customer", planCustomer(will, new(""), do))})
}

// kycDecision decides the KYC of one customer. Whoever has looked at it before, as on the console's
// page, says so by its time: what is decided is what was looked at.
func (t *tool) kycDecision(c command, will string, event customer.KYCEvent) *cobra.Command {
	var asOf string
	c.flags = func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&asOf, "as-of", "", `the UpdatedAt of "ajo customers show --json" that was looked at: refused if it is another by now`)
	}
	return t.newChangeCmd(change{command: c, plan: planByID("the customer", planCustomer(will, &asOf,
		func(ctx context.Context, s *customer.Service, shown customer.Record, by audit.By) (customer.Customer, bool, error) {
			c, err := s.DecideByHand(ctx, shown, event, by)
			return c, true, err
		}))})
}

// planCustomer is the plan of a change of a customer; asOf is the time of what was looked at,
// empty: nothing was.
func planCustomer(will string, asOf *string, do customerChanger) func(context.Context, *app.Tools, uuid.UUID) (plan, error) {
	return func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
		r, err := tools.Customers.Show(ctx, id)
		if err != nil {
			return plan{}, err
		}
		if *asOf != "" {
			switch seen, err := time.Parse(time.RFC3339, *asOf); {
			case err != nil:
				return plan{}, fmt.Errorf("--as-of must be a time, such as 2026-12-01T09:00:00.123456Z, not %q", *asOf)
			case !seen.Equal(r.UpdatedAt):
				return plan{}, customer.ErrChanged
			}
		}
		who := fmt.Sprintf("customer %q (%s) of tenant %q, KYC %s, tier %d, %s", r.Name, r.ExternalRef, r.TenantName, r.KYCStatus, r.KYCTier, r.Status)
		if r.NINLast4 != nil { // also so that who has looked at an earlier one notices
			who += ", NIN " + last4(r.NINLast4)
		}
		if r.SameNIN > 0 {
			who += fmt.Sprintf(", whose NIN %d approved customers have too", r.SameNIN)
		}
		return plan{
			will: fmt.Sprintf(will, who),
			do: func(by audit.By) (result, error) {
				c, changed, err := do(ctx, tools.Customers, r, by)
				if err != nil {
					return result{}, err
				}
				if !changed {
					return done(changedCustomer{false, c}, "The customer already has this status or tier; nothing was changed."), nil
				}
				return done(changedCustomer{true, c}, "Customer %q: KYC %s, tier %d, %s.", c.Name, c.KYCStatus, c.KYCTier, c.Status), nil
			},
		}, nil
	}
}

func (t *tool) newCustomerTierCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "tier <customer> <1|2|3>", short: "Set a customer's KYC tier",
			long: `Sets a customer's KYC tier. Tiers 2 and 3 need an approved KYC; tier 3 is for customers who have shown an identity document
and proof of address. Tier 1 takes the approval back: KYC is none again, and the customer may submit again.`,
			example: `  ajo customers tier 0198c0de-0000-7000-8000-000000000001 3 --reason "ticket 4711: passport and electricity bill seen"`,
		},
		args: cobra.ExactArgs(2),
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			tier, err := strconv.Atoi(args[1])
			if err != nil {
				return plan{}, customer.ErrTierRange
			}
			will := "Set the tier of %s to " + strconv.Itoa(tier) + "."
			if tier == 1 {
				will = "Set the tier of %s to 1: an approval is taken back, and its KYC is none again."
			}
			return planByID("the customer", planCustomer(will, new(""),
				func(ctx context.Context, s *customer.Service, shown customer.Record, by audit.By) (customer.Customer, bool, error) {
					return s.SetTier(ctx, shown.ID, tier, by)
				}))(ctx, tools, args)
		},
	})
}
