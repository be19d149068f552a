package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/customer"
)

func (t *tool) newCustomersCmd() *cobra.Command {
	return group("customers", "Decide the KYC of customers of any tenant, and suspend them", t.newCustomersReviewCmd(), t.newCustomersShowCmd(),
		t.newCustomerChangeCmd(customerChange{
			name: "approve", short: "Approve a KYC that waits for review", will: "Approve the KYC of %s: it moves to tier 2.",
			do: func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error) {
				c, err := tools.Customers.ApproveByHand(ctx, shown, by)
				return c, true, err
			},
		}),
		t.newCustomerChangeCmd(customerChange{
			name: "reject", short: "Reject a KYC that waits for review", will: "Reject the KYC of %s: it stays at tier 1, and may submit again.",
			do: func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error) {
				c, err := tools.Customers.RejectByHand(ctx, shown, by)
				return c, true, err
			},
		}),
		t.newCustomerTierCmd(),
		t.newCustomerChangeCmd(customerChange{
			name: "suspend", short: "Give a customer no new account, and take no KYC from it",
			will: "Suspend %s: it gets no new account and may not submit KYC. Its accounts stay open, and their money arrives and may be paid out.",
			do: func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error) {
				return tools.Customers.SetStatus(ctx, shown.ID, customer.Suspended, by)
			},
		}),
		t.newCustomerChangeCmd(customerChange{
			name: "activate", short: "Serve a suspended customer again", will: "Activate %s: it may get accounts and submit KYC again.",
			do: func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error) {
				return tools.Customers.SetStatus(ctx, shown.ID, customer.Active, by)
			},
		}))
}

func (t *tool) newCustomersReviewCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "review",
		Short:   "List the customers of all tenants whose KYC waits for review, newest first",
		Example: "  ajo customers review --limit 50",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				list, info, err := tools.Customers.Reviews(ctx, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, list, info, "CUSTOMER,AGE,TENANT,REFERENCE,NAME,NIN,SAME NIN", func(c customer.Record) []string {
					return []string{c.ID.String(), age(c.UpdatedAt), c.TenantName, c.ExternalRef, c.Name, last4(c.NINLast4), strconv.Itoa(c.SameNIN)}
				})
			})
		},
	}
	f.add(cmd)
	return cmd
}

func last4(digits *string) string {
	if digits == nil {
		return ""
	}
	return "…" + *digits
}

func (t *tool) newCustomersShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show <customer>",
		Short:   "Show a customer of any tenant",
		Example: "  ajo customers show 0198c0de-0000-7000-8000-000000000001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the customer", args[0])
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				c, err := tools.Customers.Show(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, c)
				}
				return printFields(cmd.OutOrStdout(), field{"customer", c.ID.String()}, field{"name", c.Name}, field{"tenant", fmt.Sprintf("%s (%s)", c.TenantName, c.TenantID)},
					field{"reference", c.ExternalRef}, field{"status", string(c.Status)}, field{"kyc", fmt.Sprintf("%s, tier %d", c.KYCStatus, c.KYCTier)},
					field{"bvn", last4(c.BVNLast4)}, field{"nin", last4(c.NINLast4)}, field{"others approved by this nin", strconv.Itoa(c.SameNIN)},
					field{"approved beside them", yesNo(c.NINShared)}, field{"created", stamp(&c.CreatedAt)}, field{"updated", stamp(&c.UpdatedAt)})
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// customerChange is a change of one customer.
type customerChange struct {
	name, short string
	will        string // a sentence with %s for the customer
	do          func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error)
}

// changedCustomer is the result as JSON.
type changedCustomer struct {
	Changed  bool // false: it was so already, and nothing was recorded
	Customer customer.Customer
}

func (t *tool) newCustomerChangeCmd(c customerChange) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     c.name + " <customer>",
		Short:   c.short,
		Example: "  ajo customers " + c.name + ` 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: papers seen"`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return t.changeCustomer(cmd, f, args[0], c) },
	}
	f.add(cmd)
	return cmd
}

func (t *tool) newCustomerTierCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "tier <customer> <1|2|3>",
		Short: "Set a customer's KYC tier",
		Long: `Sets a customer's KYC tier. Tiers 2 and 3 need an approved KYC; tier 3 is for who has shown an identity document and proof of
address. Tier 1 takes the approval back: KYC is none again, and the customer may submit again.`,
		Example: `  ajo customers tier 0198c0de-0000-7000-8000-000000000001 3 --reason "ticket 4711: passport and electricity bill seen"`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tier, err := strconv.Atoi(args[1])
			if err != nil {
				return customer.ErrTierRange
			}
			return t.changeCustomer(cmd, f, args[0], customerChange{
				will: "Set the tier of %s to " + strconv.Itoa(tier) + ".",
				do: func(ctx context.Context, tools *app.Tools, shown customer.Customer, by audit.By) (customer.Customer, bool, error) {
					return tools.Customers.SetTier(ctx, shown.ID, tier, by)
				},
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (t *tool) changeCustomer(cmd *cobra.Command, f changeFlags, arg string, c customerChange) error {
	var id uuid.UUID
	id, err := parseID("the customer", arg)
	if err != nil {
		return err
	}
	by, err := f.by()
	if err != nil {
		return err
	}
	return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
		r, err := tools.Customers.Show(ctx, id)
		if err != nil {
			return err
		}
		who := fmt.Sprintf("customer %q (%s) of tenant %q, KYC %s, tier %d, %s", r.Name, r.ExternalRef, r.TenantName, r.KYCStatus, r.KYCTier, r.Status)
		if r.SameNIN > 0 {
			who += fmt.Sprintf(", whose NIN has approved %d others", r.SameNIN)
		}
		if err := f.confirm(cmd, c.will, who); err != nil {
			return err
		}
		after, changed, err := c.do(ctx, tools, r.Customer, by)
		if err != nil {
			return err
		}
		if !changed {
			return f.done(cmd, changedCustomer{false, after}, "It is so already; nothing was changed.")
		}
		return f.done(cmd, changedCustomer{true, after}, "Customer %q: KYC %s, tier %d, %s.", after.Name, after.KYCStatus, after.KYCTier, after.Status)
	})
}
