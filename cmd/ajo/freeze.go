package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/account"
	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/freeze"
	"ajo/internal/page"
)

func (t *tool) newFreezeCmd() *cobra.Command {
	return group("freeze", "Stop the payouts of an account, of a tenant or of everyone, and let them continue",
		t.newFreezeAccountCmd(), t.newFreezeTenantCmd(), t.newFreezePayoutsCmd(), t.newFreezeListCmd(), t.newFreezeLiftCmd())
}

const freezeLong = `Once this command has ended, no process submits a payout %s to the bank. Payouts that were submitted before are
completed. The others stay pending, and continue by themselves when the freeze is lifted or ends. Incoming money is posted as always.
Settle requests are accepted, and wait.`

// addUntil adds --until.
func addUntil(cmd *cobra.Command, to *whenFlag) {
	to.ahead = true
	addFlag(cmd, to, "until", "when it ends by itself, such as 2026-01-30T18:00:00Z or, from now, 2h; without it: when it is lifted")
}

// planFreeze is the plan of a freeze; will says whose payouts stop.
func planFreeze(ctx context.Context, tools *app.Tools, n freeze.New, until whenFlag, will string) (plan, error) {
	ends := "They go on when the freeze is lifted."
	if until.at != nil {
		n.Until = new(until.at(tools.Now()))
		ends = "They go on at " + stamp(n.Until) + ", or when the freeze is lifted."
	}
	return plan{will: will + " " + ends, do: func(by audit.By) (result, error) {
		f, err := tools.Freezes.Begin(ctx, n, by)
		return committed(done(f, "Freeze %s stands. To end it: ajo freeze lift %s", f.ID, f.ID), err)
	}}, nil
}

// committed is the result of a change that was committed, also if what follows the commit has
// failed ([freeze.ErrOpen], [freeze.ErrAccepting], [freeze.ErrNotResumed]): its note says so then.
// Other errors stay.
func committed(r result, err error) (result, error) {
	if errors.Is(err, freeze.ErrOpen) || errors.Is(err, freeze.ErrAccepting) || errors.Is(err, freeze.ErrNotResumed) {
		r.note, err = title(err.Error())+".", nil
	}
	return r, err
}

func (t *tool) newFreezeAccountCmd() *cobra.Command {
	var until whenFlag
	var all bool
	return t.newChangeCmd(change{
		moves: true,
		command: command{
			use: "account <account>", short: "Stop the payouts of an account",
			long:    fmt.Sprintf(freezeLong, "of the account") + "\nWith --all they are refused (409 account is frozen).",
			example: `  ajo freeze account 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: reported as stolen" --until 48h`,
			flags: func(cmd *cobra.Command) {
				addUntil(cmd, &until)
				cmd.Flags().BoolVar(&all, "all", false, "refuse new settle requests too, instead of letting them wait")
			},
		},
		plan: planByID("the account", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			a, err := account.ByID(ctx, tools.Pool, id)
			if err != nil {
				return plan{}, err
			}
			requests := "New settle requests are accepted, and wait."
			if all {
				requests = "New settle requests are refused."
			}
			return planFreeze(ctx, tools, freeze.New{Scope: freeze.Account, Subject: id, Requests: all}, until,
				fmt.Sprintf("Stop the payouts of account %q (%s, balance NGN %s) of tenant %q that are not at the bank yet. %s", a.AccountRef, a.BankAccountNumber, a.Balance, a.TenantName, requests))
		}),
	})
}

func (t *tool) newFreezeTenantCmd() *cobra.Command {
	var until whenFlag
	return t.newChangeCmd(change{
		moves: true,
		command: command{
			use: "tenant <id or e-mail>", short: "Stop the payouts of a tenant", complete: t.tenants(),
			long:    fmt.Sprintf(freezeLong, "of the tenant") + "\nIts key and its sessions keep working; \"ajo tenant suspend\" refuses them too.",
			example: `  ajo freeze tenant ops@shop.example --reason "ticket 4711: its key may have leaked"`,
			flags:   func(cmd *cobra.Command) { addUntil(cmd, &until) },
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			r, err := tools.Tenants.Find(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			return planFreeze(ctx, tools, freeze.New{Scope: freeze.Tenant, Subject: r.ID}, until,
				fmt.Sprintf("Stop all payouts of tenant %s that are not at the bank yet.", nameAndStatus(r)))
		},
	})
}

func (t *tool) newFreezePayoutsCmd() *cobra.Command {
	var until whenFlag
	return t.newChangeCmd(change{
		moves: true,
		command: command{
			use: "payouts", short: "Stop all payouts of all tenants",
			long:    fmt.Sprintf(freezeLong, "of any tenant"),
			example: `  ajo freeze payouts --reason "the bank pays twice" --until 1h`,
			flags:   func(cmd *cobra.Command) { addUntil(cmd, &until) },
		},
		args: cobra.NoArgs,
		plan: func(ctx context.Context, tools *app.Tools, _ []string) (plan, error) {
			return planFreeze(ctx, tools, freeze.New{Scope: freeze.Payouts}, until, "Stop ALL payouts of ALL tenants that are not at the bank yet.")
		},
	})
}

func (t *tool) newFreezeListCmd() *cobra.Command {
	var status string
	return newListCmd(t, listing[freeze.Freeze]{
		command: command{
			short: "List freezes, newest first, and suspended tenants",
			long: `Lists freezes, newest first. Before those that stand come the tenants that are suspended, whose payouts stop too: "ajo tenant activate"
lets them go on.`,
			example: "  ajo freeze list --status standing",
			flags:   func(cmd *cobra.Command) { addChoice(cmd, &status, "status", freeze.Standing, freeze.Ended) },
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]freeze.Freeze, page.Info, error) {
			return tools.Freezes.List(ctx, freeze.Status(status), r)
		},
		note: func(list []freeze.Freeze) string {
			if !freeze.LacksSuspended(list) {
				return ""
			}
			return fmt.Sprintf("%d suspended tenants are listed, and more may be: ajo tenant list --status suspended", freeze.MaxSuspended)
		},
		row: func(f freeze.Freeze, now time.Time) []field {
			stops := f.Target()
			if f.Requests {
				stops += ", requests too"
			}
			state := freeze.Ended
			if f.Stands(now) {
				state = freeze.Standing
			}
			id, since := f.ID.String(), "" // of a suspension it may be forgotten
			if f.CreatedAt != nil {
				since = age(now, *f.CreatedAt)
			}
			if f.Scope == freeze.Suspension {
				id = "-"
			}
			return []field{
				{"FREEZE", id},
				{"AGE", since},
				{"STATUS", string(state)},
				{"STOPS", stops},
				{"UNTIL", stamp(f.Until)},
				{"LIFTED", stamp(f.LiftedAt)},
				{"BY", f.Actor},
				{"REASON", cut(f.Reason, 60)},
			}
		},
	})
}

func (t *tool) newFreezeLiftCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "lift <freeze>", short: "End a freeze, so that the stopped payouts continue",
			long:    "Ends a freeze. The payouts that it stopped go on at once, unless another freeze or a suspension stops them too.",
			example: `  ajo freeze lift 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the owner has called"`,
		},
		plan: planByID("the freeze", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			f, err := tools.Freezes.Find(ctx, id)
			if err != nil {
				return plan{}, err
			}
			if !f.Stands(tools.Now()) {
				return plan{}, freeze.ErrEnded
			}
			return plan{
				will:     fmt.Sprintf("Lift the freeze of %s that %s began at %s: %s. Its payouts go on at once, unless another freeze or a suspension stops them too.", f.Target(), f.Actor, stamp(f.CreatedAt), f.Reason),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					f, err := tools.Freezes.Lift(ctx, id, by)
					return committed(done(f, "The freeze is lifted."), err)
				},
			}, nil
		}),
	})
}
