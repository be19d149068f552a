package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/webhook"
)

func (t *tool) newDeliveriesCmd() *cobra.Command {
	return group("deliveries", "Look at what tenants are told, and tell them again", t.newDeliveriesListCmd(), t.newDeliveryShowCmd(), t.newReplayCmd())
}

func (t *tool) newDeliveriesListCmd() *cobra.Command {
	var f listFlags
	var status, event, tenantName string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List outbound deliveries, newest first",
		Example: "  ajo deliveries list --status dead_letter --tenant ops@shop.example",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				owner, err := tenantID(ctx, tools, tenantName)
				if err != nil {
					return err
				}
				deliveries, info, err := tools.Webhooks.List(ctx, webhook.Filter{TenantID: owner, Status: webhook.Status(status), EventType: webhook.Type(event)}, r)
				if err != nil {
					return err
				}
				return printList(cmd, f, deliveries, info, "DELIVERY,CREATED,EVENT,STATUS,ATTEMPTS,NEXT,URL,LAST ERROR", func(d webhook.Delivery) []string {
					return []string{
						d.ID.String(), stamp(&d.CreatedAt), string(d.EventType), string(d.Status), strconv.Itoa(d.AttemptCount), stamp(d.NextAttemptAt),
						cut(d.CallbackURL, 60), cut(d.LastError, 60),
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "pending, delivered or dead_letter")
	oneOf(cmd, "status", "pending", "delivered", "dead_letter")
	cmd.Flags().StringVar(&event, "event", "", "only of this event, such as payment.received")
	cmd.Flags().StringVar(&tenantName, "tenant", "", "only this tenant's, by id or e-mail")
	f.add(cmd)
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

// attemptView is an attempt with its duration in milliseconds and the receiver's answer as text.
type attemptView struct {
	Number     int
	StartedAt  time.Time
	DurationMs int64
	StatusCode *int
	Error      string
	Body       string
}

// deliveryView is what `deliveries show` prints as JSON.
type deliveryView struct {
	webhook.Delivery
	Attempts []attemptView // the last one first
}

func (t *tool) newDeliveryShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show <delivery>",
		Short:   "Show a delivery with its attempts, the last one first",
		Example: "  ajo deliveries show 0198c0de-0000-7000-8000-000000000001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the delivery", args[0])
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				d, err := tools.Webhooks.Get(ctx, id)
				if err != nil {
					return err
				}
				attempts, err := tools.Webhooks.Attempts(ctx, id)
				if err != nil {
					return err
				}
				v := deliveryView{Delivery: d, Attempts: make([]attemptView, len(attempts))}
				for i, a := range attempts {
					v.Attempts[i] = attemptView{a.Number, a.StartedAt, a.Duration.Milliseconds(), a.StatusCode, a.Error, string(a.Body)}
				}
				if asJSON {
					return printJSON(cmd, v)
				}
				return printDelivery(cmd, v)
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func printDelivery(cmd *cobra.Command, d deliveryView) error {
	err := printFields(cmd.OutOrStdout(),
		field{"delivery", d.ID.String()}, field{subject(d.EventType), d.TransactionGroupID.String()}, field{"tenant", d.TenantID.String()},
		field{"account", d.AccountID.String()}, field{"event", string(d.EventType)}, field{"url", d.CallbackURL}, field{"status", string(d.Status)},
		field{"attempts", strconv.Itoa(d.AttemptCount)}, field{"last error", d.LastError}, field{"next attempt", stamp(d.NextAttemptAt)},
		field{"claimed until", stamp(d.LeasedUntil)}, field{"created", stamp(&d.CreatedAt)}, field{"delivered", stamp(d.DeliveredAt)})
	if err != nil || len(d.Attempts) == 0 {
		return err
	}
	rows := make([][]string, len(d.Attempts))
	for i, a := range d.Attempts {
		code := ""
		if a.StatusCode != nil {
			code = strconv.Itoa(*a.StatusCode)
		}
		rows[i] = []string{strconv.Itoa(a.Number), stamp(&a.StartedAt), strconv.FormatInt(a.DurationMs, 10) + "ms", code, a.Error, cut(a.Body, 80)}
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return printTable(cmd.OutOrStdout(), "ATTEMPT,STARTED,TOOK,STATUS,ERROR,ANSWER", rows)
}

func (t *tool) newReplayCmd() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "replay <delivery>",
		Short:   "Give a dead letter a fresh set of attempts",
		Example: `  ajo deliveries replay 0198c0de-0000-7000-8000-000000000001 --reason "the shop's endpoint is up again"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("the delivery", args[0])
			if err != nil {
				return err
			}
			by, err := f.by()
			if err != nil {
				return err
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				d, err := tools.Webhooks.Get(ctx, id)
				if err != nil {
					return err
				}
				if d.Status != webhook.Dead {
					return webhook.ErrNotDeadLetter
				}
				err = f.confirm(cmd, "Send the event of %s %s to %s again: it has failed %d times, last with %q. It gets a fresh set of attempts, the first at once.",
					subject(d.EventType), d.TransactionGroupID, d.CallbackURL, d.AttemptCount, d.LastError)
				if err != nil {
					return err
				}
				if err := tools.Replay(ctx, id, by); err != nil {
					return err
				}
				noteRing(cmd, tools)
				if d, err = tools.Webhooks.Get(ctx, id); err != nil {
					return err
				}
				return f.done(cmd, d, "The delivery is %s again.", webhook.Pending)
			})
		},
	}
	f.add(cmd)
	return cmd
}
