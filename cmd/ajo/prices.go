package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/fee"
	"ajo/internal/money"
	"ajo/internal/page"
)

func (t *tool) newPricesCmd() *cobra.Command {
	return group("prices", "Show and set what the platform charges for payments and payouts", t.newPricesListCmd(), t.newPricesSetCmd())
}

func (t *tool) newPricesListCmd() *cobra.Command {
	var name string
	return newListCmd(t, listing[fee.Price]{
		command: command{
			short:   "List prices as they were set, the latest start first",
			long:    "Lists the price list, the prices that single tenants have, and the rates of VAT; with --tenant, the list and that tenant's prices.",
			example: "  ajo prices list --tenant ops@shop.example",
			flags:   func(cmd *cobra.Command) { t.addTenant(cmd, &name, "a tenant's id or e-mail") },
		},
		whole: true,
		read: func(ctx context.Context, tools *app.Tools, _ []string, _ page.Request) ([]fee.Price, page.Info, error) {
			of, err := tenantID(ctx, tools, name)
			if err != nil {
				return nil, page.Info{}, err
			}
			all, err := tools.Prices.List(ctx, of)
			return all, page.Info{}, err
		},
		row: func(p fee.Price, _ time.Time) []field {
			of := "all"
			if p.TenantID != uuid.Nil {
				of = p.TenantID.String()
			}
			return []field{
				{"TENANT", of},
				{"ON", string(p.On)},
				{"FROM", stamp(&p.ValidFrom)},
				{"PRICE", priceText(p)},
				{"BY", p.Actor},
				{"REASON", cut(p.Reason, 60)},
			}
		},
	})
}

// priceText is a price in words.
func priceText(p fee.Price) string {
	if p.AsListed {
		return "as listed"
	}
	text := []string{p.Percent.String() + " %"}
	if p.On == fee.OnVAT {
		return text[0]
	}
	text = append(text, "plus "+p.Flat.String(), "at least "+p.Minimum.String(), "at most "+limitText(p.Cap))
	return strings.Join(text, ", ")
}

// standingText is a price that holds, in words.
func standingText(s *fee.Standing) string {
	if s == nil {
		return "none"
	}
	of := "its own"
	if s.TenantID == uuid.Nil {
		of = "the list's"
	}
	return fmt.Sprintf("%s, with %s %% of VAT (%s, since %s)", priceText(s.Price), s.VAT, of, stamp(&s.ValidFrom))
}

func (t *tool) newPricesSetCmd() *cobra.Command {
	var name, on, percent string
	flat, minimum := sumFlag{new(money.Zero)}, sumFlag{new(money.Zero)}
	var most limitFlag
	var from dayFlag
	var asListed bool
	return t.newChangeCmd(change{
		command: command{
			use: "set", short: "Set what the platform charges for payments or payouts, or the VAT on it",
			long: `Sets a price from a given day on: in the price list, which applies to all tenants, or for one tenant, which overrides the list. The fee is
the percentage plus the flat amount, at least the minimum and at most the cap; what you leave out is 0, or no cap. It is debited with each
payment (on its gross amount) or settlement (on its amount) that is posted or accepted from then on, as an entry of the kind platform_fee.
What was posted or accepted before does not change, and no price is taken back: one that starts on a coming day holds from its first second
until another takes over, a minute after that is set at the earliest. --as-listed ends a tenant's own price, so that the list applies again. --on vat sets the
VAT on the platform's fees, for all tenants. A price starts in a minute at the earliest.`,
			example: `  ajo prices set --on payment --percent 0.5 --minimum 5 --cap 1000 --from 2026-12-01 --reason "price list 7"` + "\n" +
				`  ajo prices set --on payout --flat 10 --tenant ops@shop.example --reason "contract 12"` + "\n" +
				`  ajo prices set --on payout --as-listed --tenant ops@shop.example --reason "contract 12 has ended"` + "\n" +
				`  ajo prices set --on vat --percent 7.5 --reason "the law"`,
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &on, "on", string(fee.OnPayment), string(fee.OnPayout), string(fee.OnVAT))
				t.addTenant(cmd, &name, "a tenant's id or e-mail (default: the list)")
				cmd.Flags().StringVar(&percent, "percent", "0", "of the sum, with at most four decimals")
				addFlag(cmd, &flat, "flat", "added to the percentage")
				addFlag(cmd, &minimum, "minimum", "the lowest fee")
				addFlag(cmd, &most, "cap", "the highest fee, or none (default none)")
				cmd.Flags().BoolVar(&asListed, "as-listed", false, "end the tenant's own price")
				addFlag(cmd, &from, "from", "the day in Lagos on which it starts, such as 2026-12-01 (default: in a minute)")
			},
		},
		args: cobra.NoArgs,
		plan: func(ctx context.Context, tools *app.Tools, _ []string) (plan, error) {
			rate, err := money.ParseRate(percent)
			if err != nil {
				return plan{}, refuse("percent", "from 0 to 100 with at most four decimals, such as 0.5", percent)
			}
			p := fee.Price{On: fee.On(on), AsListed: asListed, Percent: rate, Flat: *flat.sum, Minimum: *minimum.sum, Cap: most.sum, ValidFrom: from.at}
			of := "all tenants without a price of their own"
			if name != "" {
				r, err := tools.Tenants.Find(ctx, name)
				if err != nil {
					return plan{}, err
				}
				p.TenantID, of = r.ID, "tenant "+nameAndStatus(r)
			}
			if err := p.Check(); err != nil {
				return plan{}, err
			}
			set, err := tools.Prices.List(ctx, p.TenantID)
			if err != nil {
				return plan{}, err
			}
			will, what := priceSentence(p, of, nextPrice(set, p, cmp.Or(p.ValidFrom, tools.Now().Add(fee.Lead))))
			return plan{will: will, do: func(by audit.By) (result, error) {
				set, err := tools.Prices.Set(ctx, p, by)
				return done(set, "From %s on: %s.", set.ValidFrom.UTC().Format(time.RFC3339), what), err
			}}, nil
		},
	})
}

// priceSentence says what setting a price of the named tenants does, and what is charged then; next
// is when another price takes over.
func priceSentence(p fee.Price, of string, next time.Time) (will, what string) {
	when := cmp.Or(stamp(&p.ValidFrom), "a minute from now")
	what = fmt.Sprintf("%s on each %s of %s", priceText(p), p.On, of)
	if p.On == fee.OnVAT {
		what = priceText(p) + " of VAT on the platform's fees"
	}
	will = fmt.Sprintf("Charge %s, from %s on.", what, when)
	if p.AsListed {
		what = fmt.Sprintf("the list price for each %s of %s", p.On, of)
		will = fmt.Sprintf("Charge %s, from %s on: the tenant's own price ends.", what, when)
	}
	if !next.IsZero() {
		will += " The one that starts at " + stamp(&next) + " takes over then."
	}
	if !p.ValidFrom.IsZero() {
		will += " This price cannot be taken back or replaced: only one that starts later ends it."
	}
	return will, what
}

// nextPrice is when a price that is set already takes over from one that starts at a time, of the
// same tenant and on the same; zero: none does. The latest start is the first of set.
func nextPrice(set []fee.Price, of fee.Price, starts time.Time) (next time.Time) {
	for _, p := range set {
		if p.On == of.On && p.TenantID == of.TenantID && p.ValidFrom.After(starts) {
			next = p.ValidFrom
		}
	}
	return next
}
