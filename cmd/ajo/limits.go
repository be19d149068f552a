package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/tenant"
)

func (t *tool) newTenantLimitsCmd() *cobra.Command {
	return group("limits", "Show and set what a tenant may pay out, and what its customers may receive", t.newLimitsShowCmd(), t.newLimitsSetCmd(), t.newLimitsTierCmd())
}

// limitsShown is what "limits show" prints as JSON.
type limitsShown struct {
	Tenant   tenant.Record
	Standing limit.Standing
	Counted  bool        // whether the payouts of today are counted; else Standing does not know them
	Sets     []limit.Set // the latest start first
}

// today is the sum of today's payouts. Where none is counted, 0.00 would mean that none was made.
func (s limitsShown) today() string {
	if !s.Counted {
		return "not counted"
	}
	return s.Standing.Payouts.Today.String()
}

func (t *tool) newLimitsShowCmd() *cobra.Command {
	return newShowCmd(t, showing[limitsShown]{
		command: command{
			use: "show <id or e-mail>", short: "Show a tenant's limits, and how much of them is used today",
			example: "  ajo tenant limits show ops@shop.example", complete: t.tenants(),
		},
		read: func(ctx context.Context, tools *app.Tools, idOrEmail string) (s limitsShown, err error) {
			if s.Tenant, err = tools.Tenants.Find(ctx, idOrEmail); err != nil {
				return s, err
			}
			if s.Standing, err = tools.Limits.Standing(ctx, s.Tenant.ID); err != nil {
				return s, err
			}
			s.Counted = s.Standing.Payouts.Counted
			s.Sets, err = tools.Limits.Sets(ctx, s.Tenant.ID)
			return s, err
		},
		print: func(out io.Writer, s limitsShown) error {
			p := s.Standing.Payouts
			err := printFields(
				out,
				field{"tenant", s.Tenant.ID.String()},
				field{"name", s.Tenant.Name},
				field{"day", s.Standing.Day},
				field{"payouts today", s.today()},
				field{"left today", leftText(p.Left)},
			)
			if err != nil || len(s.Sets) == 0 {
				return err
			}
			fmt.Fprintln(out)
			return printTable(out, s.Sets, func(x limit.Set) []field {
				of, values := "payouts", []field{{"transfer", limitText(x.MaxTransfer)}, {"account and day", limitText(x.MaxAccountDay)}, {"day", limitText(x.MaxTenantDay)}}
				if x.Tier != nil {
					of = fmt.Sprintf("tier %d", x.Tier.Tier)
					values = []field{{"deposit", limitText(x.Tier.MaxDeposit)}, {"day", limitText(x.Tier.MaxDay)}, {"balance", limitText(x.Tier.MaxBalance)}}
				}
				var text []string
				for _, v := range values {
					text = append(text, v.name+" "+v.value)
				}
				return []field{
					{"OF", of},
					{"FROM", stamp(&x.StartsAt)},
					{"AT MOST", strings.Join(text, ", ")},
					{"BY", x.Actor},
					{"REASON", cut(x.Reason, 60)},
				}
			})
		},
	})
}

func limitText(a *money.Amount) string {
	if a == nil {
		return noLimit
	}
	return a.String()
}

// leftText is what a limit leaves. Where there is none, "none" would mean that nothing is left.
func leftText(a *money.Amount) string {
	if a == nil {
		return "no limit"
	}
	return a.String()
}

// limitsAt returns, of limits as they were set (the latest start first), those of payouts (tier 0)
// or of a tier that stand at a time, and when the next ones start; zero: there are none.
func limitsAt(sets []limit.Set, tier int, at time.Time) (stands limit.Set, next time.Time) {
	for _, x := range sets {
		of := 0
		if x.Tier != nil {
			of = x.Tier.Tier
		}
		switch {
		case of != tier:
		case x.Begun(at):
			return x, next
		default:
			next = x.StartsAt
		}
	}
	return stands, next
}

// untilNext says that limits that are set already take over.
func untilNext(next time.Time) string {
	if next.IsZero() {
		return ""
	}
	return " Those that start at " + stamp(&next) + " take over then."
}

func (t *tool) newLimitsSetCmd() *cobra.Command {
	var transfer, account, all limitFlag
	var from dayFlag
	return t.tenantChange(command{
		use: "set <id or e-mail>", short: "Set what a tenant may pay out",
		long: `Sets the limits of a tenant's settlements, until limits that are set for a later day take over. A limit that you leave out stays as it
is at the start; "none" removes it. A settle request above a limit is
refused (400), with the limit's name, its value and what is left. Days are days in Lagos. On the day on which a tenant gets its first limits,
only what is accepted after that counts. Settlements that were already accepted continue.`,
		example: `  ajo tenant limits set ops@shop.example --max-transfer 500000 --max-tenant-day 5000000 --reason "contract 12"` + "\n" +
			`  ajo tenant limits set ops@shop.example --max-transfer none --from 2026-12-01 --reason "contract 13"`,
		flags: func(cmd *cobra.Command) {
			addFlag(cmd, &transfer, "max-transfer", "of one settlement")
			addFlag(cmd, &account, "max-account-day", "of an account's settlements of a day")
			addFlag(cmd, &all, "max-tenant-day", "of all settlements of a day")
			addFlag(cmd, &from, "from", "the day in Lagos on which they start, such as 2026-12-01 (default: now)")
		},
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		sets, err := tools.Limits.Sets(ctx, r.ID)
		if err != nil {
			return plan{}, err
		}
		was, next := limitsAt(sets, 0, cmp.Or(from.at, tools.Limits.Clock.Now()))
		p := limit.Payouts{MaxTransfer: transfer.or(was.MaxTransfer), MaxAccountDay: account.or(was.MaxAccountDay), MaxTenantDay: all.or(was.MaxTenantDay)}
		text := strings.Join([]string{
			"per settlement " + limitText(p.MaxTransfer), "per account and day " + limitText(p.MaxAccountDay), "per day in all " + limitText(p.MaxTenantDay),
		}, ", ")
		when := cmp.Or(stamp(&from.at), "now")
		return plan{will: fmt.Sprintf("Limit the payouts of tenant %s from %s on: %s.%s", nameAndStatus(r), when, text, untilNext(next)), do: func(by audit.By) (result, error) {
			set, err := tools.Limits.SetPayouts(ctx, r.ID, from.at, p, by)
			return committed(done(set, "The limits of tenant %q (%s) from %s on: %s.", r.Name, r.Email, stamp(&set.StartsAt), text), err)
		}}, nil
	})
}

func (t *tool) newLimitsTierCmd() *cobra.Command {
	var number int
	var deposit, day, balance limitFlag
	var from dayFlag
	return t.tenantChange(command{
		use: "tier <id or e-mail>", short: "Limit what accounts of a tenant's customers of a tier may receive",
		long: `Sets the limits of what the accounts of a tenant's customers of one tier may receive, until limits that are set for a later day take over.
A limit that you leave out stays as it is at the start; "none" removes it. A payment above a limit is still posted, but the excess is held: it is in the balance, and no settlement can use it. A higher tier of the customer ("ajo customers tier", or its KYC) releases what that tier allows; "ajo accounts
release" releases one hold. What has already been received is neither held nor released by this command.`,
		example: `  ajo tenant limits tier ops@shop.example --tier 1 --max-deposit 50000 --max-balance 300000 --reason "contract 12"`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().IntVar(&number, "tier", 0, "1, 2 or 3")
			addFlag(cmd, &deposit, "max-deposit", "of one payment, after the bank's fee")
			addFlag(cmd, &day, "max-day", "of an account's payments of a day")
			addFlag(cmd, &balance, "max-balance", "of an account's balance, without what limits hold")
			addFlag(cmd, &from, "from", "the day in Lagos on which they start, such as 2026-12-01 (default: now)")
		},
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		if number < 1 || number > 3 {
			return plan{}, limit.ErrTier
		}
		sets, err := tools.Limits.Sets(ctx, r.ID)
		if err != nil {
			return plan{}, err
		}
		was, next := limitsAt(sets, number, cmp.Or(from.at, tools.Limits.Clock.Now()))
		if was.Tier == nil {
			was.Tier = &limit.Tier{}
		}
		x := limit.Tier{Tier: number, MaxDeposit: deposit.or(was.Tier.MaxDeposit), MaxDay: day.or(was.Tier.MaxDay), MaxBalance: balance.or(was.Tier.MaxBalance)}
		text := fmt.Sprintf("per payment %s, per account and day %s, of the balance %s", limitText(x.MaxDeposit), limitText(x.MaxDay), limitText(x.MaxBalance))
		when := cmp.Or(stamp(&from.at), "now")
		return plan{will: fmt.Sprintf("Limit what comes in to accounts of customers of tier %d of tenant %s from %s on: %s. What is above is posted and held.%s", number, nameAndStatus(r), when, text, untilNext(next)), do: func(by audit.By) (result, error) {
			set, err := tools.Limits.SetTier(ctx, r.ID, from.at, x, by)
			return done(set, "The limits of tier %d of tenant %q (%s) from %s on: %s.", number, r.Name, r.Email, stamp(&set.StartsAt), text), err
		}}, nil
	})
}
