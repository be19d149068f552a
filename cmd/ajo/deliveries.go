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
	"ajo/internal/webhook"
)

func (t *tool) newDeliveriesCmd() *cobra.Command {
	return group("deliveries", "Show the events sent to tenants, and send dead letters again", t.newDeliveriesListCmd(), t.newDeliveryShowCmd(), t.newReplayCmd())
}

func (t *tool) newDeliveriesListCmd() *cobra.Command {
	var status, event, tenantName string
	var before *time.Time
	var cmd *cobra.Command
	cmd = newListCmd(t, listing[webhook.Record]{
		command: command{
			short: "List outbound deliveries, newest first", example: "  ajo deliveries list --status dead_letter --tenant ops@shop.example",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &status, "status", webhook.Pending, webhook.Delivered, webhook.Dead)
				cmd.Flags().StringVar(&event, "event", "", "only of this event, such as payment.received")
				t.addTenant(cmd, &tenantName, "only this tenant's, by id or e-mail")
			},
		},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]webhook.Record, page.Info, error) {
			owner, err := tenantID(ctx, tools, tenantName)
			if err != nil {
				return nil, page.Info{}, err
			}
			all, info, err := tools.Webhooks.List(ctx, webhook.Filter{TenantID: owner, Status: webhook.Status(status), EventType: webhook.Type(event)}, r)
			if err != nil {
				return all, info, err
			}
			if before, err = tools.Webhooks.ArchivedBefore(ctx); before != nil && !info.HasMore {
				fmt.Fprintf(cmd.ErrOrStderr(), "Deliveries from before %s may be archived: they are not listed (ajo archive list).\n", stamp(before))
			}
			return all, info, err
		},
		archivedBefore: func() *time.Time { return before },
		row: func(d webhook.Record, _ time.Time) []field {
			return []field{
				{"DELIVERY", d.ID.String()},
				{"CREATED", stamp(&d.CreatedAt)},
				{"EVENT", string(d.EventType)},
				{"STATUS", string(d.Status)},
				{"ATTEMPTS", strconv.Itoa(d.AttemptCount)},
				{"NEXT", stamp(d.NextAttemptAt)},
				{"URL", cut(d.CallbackURL, 60)},
				{"LAST ERROR", cut(d.LastError, 60)},
			}
		},
	})
	return cmd
}

// subject says what a delivery's TransactionGroupID is.
func subject(t webhook.Type) string {
	what, _, _ := strings.Cut(string(t), ".")
	return what
}

// tenantID finds the tenant that a flag names; uuid.Nil for an empty flag.
func tenantID(ctx context.Context, tools *app.Tools, name string) (uuid.UUID, error) {
	if name == "" {
		return uuid.Nil, nil
	}
	owner, err := tools.Tenants.Find(ctx, name)
	return owner.ID, err
}

// deliveryView is what `deliveries show` prints as JSON.
type deliveryView struct {
	webhook.Record
	Attempts []webhook.Attempt // the last one first
}

func (t *tool) newDeliveryShowCmd() *cobra.Command {
	return newShowCmd(t, showing[deliveryView]{
		command: command{
			use: "show <delivery>", short: "Show a delivery with its attempts, the last one first",
			example: "  ajo deliveries show 0198c0de-0000-7000-8000-000000000001",
		},
		read: byID("the delivery", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (v deliveryView, err error) {
			if v.Record, err = tools.Webhooks.Get(ctx, id); err != nil {
				return v, err
			}
			v.Attempts, err = tools.Webhooks.Attempts(ctx, id)
			return v, err
		}),
		print: printDelivery,
	})
}

func printDelivery(out io.Writer, d deliveryView) error {
	err := printFields(
		out,
		field{"delivery", d.ID.String()},
		field{subject(d.EventType), d.TransactionGroupID.String()},
		field{"tenant", d.TenantID.String()},
		field{"account", d.AccountID.String()},
		field{"event", string(d.EventType)},
		field{"url", d.CallbackURL},
		field{"status", string(d.Status)},
		field{"attempts", strconv.Itoa(d.AttemptCount)},
		field{"last error", d.LastError},
		field{"next attempt", stamp(d.NextAttemptAt)},
		field{"claimed until", stamp(d.LeasedUntil)},
		field{"created", stamp(&d.CreatedAt)},
		field{"delivered", stamp(d.DeliveredAt)},
	)
	if err != nil || len(d.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return printTable(out, d.Attempts, func(a webhook.Attempt) []field {
		return []field{
			{"ATTEMPT", strconv.Itoa(a.Number)},
			{"STARTED", stamp(&a.StartedAt)},
			{"TOOK", strconv.FormatInt(a.DurationMS, 10) + "ms"},
			{"STATUS", optional(a.StatusCode)},
			{"ERROR", a.Error},
			{"ANSWER", cut(a.Body, 80)},
		}
	})
}

func (t *tool) newReplayCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "replay <delivery>", short: "Send a dead letter again, with a new set of attempts",
			example: `  ajo deliveries replay 0198c0de-0000-7000-8000-000000000001 --reason "the shop's endpoint is up again"`,
		},
		plan: planByID("the delivery", func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error) {
			d, err := tools.Webhooks.Replayable(ctx, id)
			if err != nil {
				return plan{}, err
			}
			return plan{
				will: fmt.Sprintf("Send the event of %s %s to %s again: it has failed %d times, last with %q. It gets a fresh set of attempts, the first at once.",
					subject(d.EventType), d.TransactionGroupID, d.CallbackURL, d.AttemptCount, d.LastError),
				enqueues: true,
				do: func(by audit.By) (result, error) {
					if err := tools.Webhooks.Replay(ctx, id, by); err != nil {
						return result{}, err
					}
					d, err := tools.Webhooks.Get(ctx, id)
					return result{value: d, text: "The delivery is pending again."}, err
				},
			}, nil
		}),
	})
}
