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
	return group("prices", "Show and set what the platform takes for payments and payouts", t.newPricesListCmd(), t.newPricesSetCmd())
}

func (t *tool) newPricesListCmd() *cobra.Command {
	var name string
	return newListCmd(t, listing[fee.Price]{
		command: command{
			short:   "List prices as they were set, the latest start first",
			long:    "Lists the price list, the tenants' own prices and the rates of VAT; with --tenant the list and that tenant's own.",
			example: "  ajo prices list --tenant ops@shop.example",
			flags:   func(cmd *cobra.Command) { t.addTenant(cmd, &name, "a tenant's id or e-mail") },
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, _ page.Request) ([]fee.Price, page.Info, error) {
			of, err := tenantID(ctx, tools, name)
			if err != nil {
				return nil, page.Info{}, err
			}
			all, err := tools.Prices.List(ctx, of)
			return all, page.Info{}, err
		},
		row: func(p fee.Price) []field {
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
	text = append(text, "and "+p.Flat.String(), "at least "+p.Minimum.String(), "at most "+limitText(p.Cap))
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
	var name, on, percent, flat, minimum, most, from string
	var asListed bool
	return t.newChangeCmd(change{
		command: command{
			use: "set", short: "Set what the platform takes for payments or payouts, or the VAT on that",
			long: `Sets a price from a day on: of the list, which holds for all tenants, or a tenant's own, which goes before the list's. The fee is
percent and flat together, at least the minimum and at most the cap; what is not named is 0, or no cap. It is debited beside each payment
(of its gross amount) or settlement (of its amount) that is posted or accepted from then on, an entry of kind platform_fee; what was posted or
accepted before stays as it was. --as-listed ends a tenant's own price: the list's holds for it again. --on vat sets the VAT on our own fees, for all. A price starts a minute from now at the earliest.`,
			example: `  ajo prices set --on payment --percent 0.5 --minimum 5 --cap 1000 --from 2026-12-01 --reason "price list 7"` + "\n" +
				`  ajo prices set --on payout --flat 10 --tenant ops@shop.example --reason "contract 12"` + "\n" +
				`  ajo prices set --on payout --as-listed --tenant ops@shop.example --reason "contract 12 has ended"` + "\n" +
				`  ajo prices set --on vat --percent 7.5 --reason "the law"`,
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &on, "on", string(fee.OnPayment), string(fee.OnPayout), string(fee.OnVAT))
				t.addTenant(cmd, &name, "a tenant's id or e-mail (default: the list)")
				cmd.Flags().StringVar(&percent, "percent", "0", "of the sum, with at most four decimals")
				cmd.Flags().StringVar(&flat, "flat", "0", "added to it, in naira")
				cmd.Flags().StringVar(&minimum, "minimum", "0", "the fee at the least")
				cmd.Flags().StringVar(&most, "cap", noLimit, "the fee at the most")
				cmd.Flags().BoolVar(&asListed, "as-listed", false, "the tenant has no own price any more")
				cmd.Flags().StringVar(&from, "from", "", "the day in Lagos on which it starts, as 2026-12-01 (default: in a minute)")
			},
		},
		args: cobra.NoArgs,
		plan: func(ctx context.Context, tools *app.Tools, _ []string) (plan, error) {
			p := fee.Price{On: fee.On(on), AsListed: asListed}
			var errs [5]error
			if p.Percent, errs[0] = money.ParseRate(percent); errs[0] != nil {
				errs[0] = fmt.Errorf("--percent is from 0 to 100 with at most four decimals, not %q", percent)
			}
			p.Flat, errs[1] = parseSum("flat", flat)
			p.Minimum, errs[2] = parseSum("minimum", minimum)
			p.Cap, errs[3] = parseLimit("cap", most, nil)
			p.ValidFrom, errs[4] = parseDay("from", from)
			if err := cmp.Or(errs[:]...); err != nil {
				return plan{}, err
			}
			of := "all tenants without an own price"
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
			when := "a minute from now"
			if !p.ValidFrom.IsZero() {
				when = stamp(&p.ValidFrom)
			}
			what := fmt.Sprintf("%s on each %s of %s", priceText(p), on, of)
			if p.On == fee.OnVAT {
				what = priceText(p) + " of VAT on the platform's fees"
			}
			will := fmt.Sprintf("Take %s, from %s on.", what, when)
			if p.AsListed {
				what = fmt.Sprintf("what the list says on each %s of %s", on, of)
				will = fmt.Sprintf("Take %s, from %s on: its own price ends.", what, when)
			}
			return plan{will: will, do: func(by audit.By) (result, error) {
				set, err := tools.Prices.Set(ctx, p, by)
				if err != nil {
					return result{}, err
				}
				return done(set, "From %s on: %s.", set.ValidFrom.UTC().Format(time.RFC3339), what)
			}}, nil
		},
	})
}

// parseSum reads a flag that is a sum of naira.
func parseSum(name, text string) (money.Amount, error) {
	a, err := money.Parse(text)
	if err != nil {
		err = fmt.Errorf("--%s is a sum of naira, not %q", name, text)
	}
	return a, err
}
