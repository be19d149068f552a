package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/work"
	"ajo/tasks"
)

func (t *tool) newWorkCmd() *cobra.Command {
	return group("work", "Show the pending work, and make an item of it due now", t.newWorkListCmd(), t.newWorkShowCmd(), t.newWorkRetryCmd())
}

func (t *tool) newWorkListCmd() *cobra.Command {
	var kind, tenantName string
	var f work.Filter
	var now time.Time // by Postgres' clock, as are the times of items
	cmd := newListCmd(t, listing[work.Record]{
		command: command{
			short: "List the pending work in the order of its due times",
			long: `Lists the items of the table work: what is still to be done, when it is due, and whether a worker has it leased.
An item is there until its work is done. ID is that of the event (ingest, confirm), the transfer (settle), the delivery (deliver)
or the account (expire). FAILURES and LAST ERROR are about attempts that failed unexpectedly, each of which doubles the item's delay, up to
an hour. What a bank or an endpoint answered is in "ajo transfers show" and the like.`,
			example: "  ajo work list --summary\n  ajo work list --kind settle --due\n  ajo work list --failing --tenant ops@shop.example",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &kind, "kind", work.Kinds...)
				t.addTenant(cmd, &tenantName, "only this tenant's, by id or e-mail; an event has none before it is posted")
				cmd.Flags().BoolVar(&f.Due, "due", false, "only what is due and not leased")
				cmd.Flags().BoolVar(&f.Failing, "failing", false, "only what failed the last time")
				cmd.Flags().BoolVar(&f.Leased, "leased", false, "only what a worker has leased")
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) (_ []work.Record, _ page.Info, err error) {
			f.Kind = work.Kind(kind)
			if f.TenantID, err = tenantID(ctx, tools, tenantName); err != nil {
				return nil, page.Info{}, err
			}
			return work.List(ctx, tools.Pool, tools.Now(), f, r)
		},
		row: func(m work.Record, now time.Time) []field {
			tenant := m.TenantName
			if tenant == "" && m.TenantID != nil {
				tenant = m.TenantID.String()
			}
			return []field{
				{"KIND", string(m.Kind)},
				{"ID", m.ID.String()},
				{"TENANT", cut(tenant, 30)},
				{"DUE", stamp(&m.DueAt)},
				{"OVERDUE", overdue(&m.DueAt, now)},
				{"LEASED UNTIL", leased(m, now)},
				{"FAILURES", strconv.Itoa(m.Attempts)},
				{"LAST ERROR", cut(m.LastError, 60)},
			}
		},
	})
	cmd.MarkFlagsMutuallyExclusive("due", "leased")
	lists := []string{"kind", "tenant", "due", "failing", "leased", "limit", "after"}
	return addSummary(t, cmd, "count what is due, leased and due later of each kind, instead of listing it", lists, showing[[]work.Summary]{
		read: func(ctx context.Context, tools *app.Tools, _ string) ([]work.Summary, error) {
			now = tools.Now()
			return work.Summarize(ctx, tools.Pool, now)
		},
		print: func(w io.Writer, all []work.Summary) error { return printSummary(w, all, now) },
	})
}

// overdue is how long before now a time was; "" when it is to come, or none.
func overdue(at *time.Time, now time.Time) string {
	if at == nil || at.After(now) {
		return ""
	}
	return lasting(now.Sub(*at))
}

// leased is until when a worker has an item; "" when nobody has.
func leased(m work.Record, now time.Time) string {
	if !m.Leased(now) {
		return ""
	}
	return stamp(m.LeasedUntil)
}

func printSummary(w io.Writer, all []work.Summary, now time.Time) error {
	return printTable(w, all, func(s work.Summary) []field {
		return []field{
			{"KIND", string(s.Kind)},
			{"DUE", counted(s.Due, s.Due+s.Leased)},
			{"OLDEST", overdue(s.OldestDue, now)},
			{"LEASED", counted(s.Leased, s.Due+s.Leased)},
			{"LATER", counted(s.Later, s.Later)},
		}
	})
}

// counted is a count with a plus sign where the counting ended before the rows did.
func counted(n, read int) string {
	if read > work.CountLimit {
		return strconv.Itoa(min(n, work.CountLimit)) + "+"
	}
	return strconv.Itoa(n)
}

func (t *tool) newWorkShowCmd() *cobra.Command {
	var now time.Time
	return newShowCmd(t, showing[[]app.WorkDetail]{
		command: command{
			use: "show <id>", short: "Show the pending work on an event, a transfer, a delivery or an account",
			long: `Shows the items of the table work about a row: when each is due, who has it, why it failed, and its tasks in the queue
(AJO_REDIS_URL). An item without a task is not lost: the workers' sweep enqueues it when it is overdue.`,
			example: "  ajo work show 0198c0de-0000-7000-8000-000000000001",
		},
		read: byID("the item", func(ctx context.Context, tools *app.Tools, id uuid.UUID) ([]app.WorkDetail, error) {
			now = tools.Now()
			return tools.WorkOn(ctx, id, "")
		}),
		print: func(w io.Writer, items []app.WorkDetail) error {
			for i, d := range items {
				if i > 0 {
					fmt.Fprintln(w)
				}
				if err := printWork(w, d, now); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

func printWork(out io.Writer, d app.WorkDetail, now time.Time) error {
	tenant := optional(d.TenantID)
	if d.TenantName != "" {
		tenant = d.TenantName + " (" + tenant + ")"
	}
	due := stamp(&d.DueAt)
	if late := overdue(&d.DueAt, now); late != "" {
		due += ", " + late + " ago"
	}
	tasksText := d.TasksUnread
	if len(d.Tasks) == 0 && tasksText == "" {
		tasksText = "none"
	}
	err := printFields(
		out,
		field{"work", string(d.Kind)},
		field{d.About, d.ID.String()},
		field{"status", d.Status},
		field{"shown by", d.ShownBy},
		field{"tenant", tenant},
		field{"due", due},
		field{"leased until", leased(d.Record, now)},
		field{"failures in a row", strconv.Itoa(d.Attempts)},
		field{"last error", d.LastError},
		field{"tasks", tasksText},
	)
	if err != nil || len(d.Tasks) == 0 {
		return err
	}
	return printTable(out, d.Tasks, func(f tasks.Found) []field {
		return []field{
			{"TASK", f.ID},
			{"STATE", f.State},
			{"NEXT", stamp(f.NextAt)},
			{"RETRIED", strconv.Itoa(f.Retried)},
			{"ITEMS", strconv.Itoa(f.Items)},
			{"LAST ERROR", cut(f.LastError, 60)},
		}
	})
}

// retryEffects say what a worker does with an item that is due.
var retryEffects = map[work.Kind]string{
	work.Ingest:  "the event is posted to the ledger",
	work.Confirm: "the bank is asked about the payment, and its answer counts as any other; if only the refund by its account's policy is left to do, that is made",
	work.Settle:  "the transfer's next step is made: a pending one is submitted if it is covered, and the bank is asked about any other",
	work.Deliver: "the event is sent to the tenant's endpoint, which is one of its attempts",
	work.Expire:  "the account is expired if its deadline has come, and closed at the bank",
}

func (t *tool) newWorkRetryCmd() *cobra.Command {
	var kind string
	return t.newChangeCmd(change{
		moves: true,
		command: command{
			use: "retry <id>", short: "Make an item of pending work due now, and forget its failures",
			long: `Makes the work on an event, a transfer, a delivery or an account due now and enqueues it, instead of waiting for its time or for the
sweep. Its count of failures is reset, so that the next failure delays it by seconds, not by an hour. It decides nothing by itself: a
worker does what was to be done anyway. Work that a worker has leased is refused until the lease has ended, and an account is never
expired before its deadline.`,
			example: `  ajo work retry 0198c0de-0000-7000-8000-000000000001 --reason "the disk is no longer full"`,
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &kind, "kind", work.Kinds...)
			},
		},
		plan: planByID("the item", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			items, err := tools.RetriableWork(ctx, id, work.Kind(kind))
			if err != nil {
				return plan{}, err
			}
			var will []string
			for _, m := range items {
				failed := ""
				if m.Attempts > 0 {
					failed = fmt.Sprintf(", failed %d times in a row: %s", m.Attempts, m.LastError)
				}
				will = append(will, fmt.Sprintf("Make the work %s on %s due now (due at %s%s): %s.", m.Kind, id, stamp(&m.DueAt), failed, retryEffects[m.Kind]))
			}
			return plan{
				will: strings.Join(will, " "), enqueues: true,
				do: func(by audit.By) (result, error) {
					items, err := work.Retry(ctx, tools.Pool, tools.Now(), id, work.Kind(kind), by)
					if err != nil {
						return result{}, err
					}
					var kinds []string
					for _, m := range items {
						kinds = append(kinds, string(m.Kind))
					}
					return done(items, "The work %s on %s is due now; a worker will do it.", strings.Join(kinds, " and "), id), nil
				},
			}, nil
		}),
	})
}
