package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/work"
	"ajo/tasks"
)

// WorkDetail is an item with what it is about, and its tasks.
type WorkDetail struct {
	work.Record
	About       string // event, transfer, delivery or account
	Status      string // of that
	ShownBy     string // the command that shows it
	Tasks       []tasks.Found
	TasksUnread string // why not all tasks were read; usually empty
}

// WorkOn returns the items about a row, of one kind or ("") of all.
func (t *Tools) WorkOn(ctx context.Context, id uuid.UUID, kind work.Kind) ([]WorkDetail, error) {
	items, err := work.Items(ctx, t.Pool, id, kind)
	if err != nil {
		return nil, err
	}
	details := make([]WorkDetail, len(items))
	for i, m := range items {
		d := WorkDetail{Record: m}
		if err := t.about(ctx, &d); err != nil {
			return nil, err
		}
		switch {
		case t.redis == nil:
			d.TasksUnread = "AJO_REDIS_URL is not set"
		default:
			var all bool
			if d.Tasks, all, err = tasks.Find(t.redis, m.Kind, id); err != nil {
				d.TasksUnread = "the queue was not read: " + err.Error()
			} else if !all {
				d.TasksUnread = "the queue is long, and not all of it was read"
			}
		}
		details[i] = d
	}
	return details, nil
}

// about reads what an item is about. A row that is gone leaves the status empty.
func (t *Tools) about(ctx context.Context, d *WorkDetail) (err error) {
	switch d.Kind {
	case work.Ingest, work.Confirm:
		e, err := t.Payments.InboundEvent(ctx, d.ID)
		d.About, d.Status, d.ShownBy = "event", string(e.Status), "ajo events show "+d.ID.String()
		return known(err)
	case work.Settle:
		d.About = "transfer"
		ref, err := t.Transfers.RefOf(ctx, d.ID)
		if err != nil {
			return known(err)
		}
		x, err := t.Transfers.Show(ctx, ref)
		d.Status, d.ShownBy = string(x.Status), "ajo transfers show "+ref
		return known(err)
	case work.Deliver:
		v, err := t.Webhooks.Get(ctx, d.ID)
		d.About, d.Status, d.ShownBy = "delivery", string(v.Status), "ajo deliveries show "+d.ID.String()
		return known(err)
	case work.Expire:
		a, err := account.ByID(ctx, t.Pool, d.ID)
		d.About, d.Status = "account", string(a.Status)
		if a.BankAccountNumber != "" {
			d.ShownBy = "ajo accounts find " + a.BankAccountNumber
		}
		return known(err)
	}
	return fmt.Errorf("nothing says what work of the kind %s is about", d.Kind)
}

// known leaves out that a row is not there.
func known(err error) error {
	if errs.KindOf(err) == errs.NotFound {
		return nil
	}
	return err
}

// ErrOpenAccount refuses to end an account before its time.
var ErrOpenAccount = errors.New("the account is open until then: its tenant may expire it earlier")

// RetriableWork returns the items that [work.Retry] would make due, with its refusals, and no
// account before its time.
func (t *Tools) RetriableWork(ctx context.Context, id uuid.UUID, kind work.Kind) ([]work.Record, error) {
	items, err := work.Items(ctx, t.Pool, id, kind)
	if err != nil {
		return nil, err
	}
	now := t.clock.Now()
	for _, m := range items {
		if err := m.Retriable(now); err != nil {
			return nil, err
		}
		if m.Kind != work.Expire || !m.DueAt.After(now) {
			continue
		}
		a, err := account.ByID(ctx, t.Pool, id)
		if err != nil {
			return nil, err
		}
		if a.Status == account.Active {
			return nil, fmt.Errorf("due at %s: %w", m.DueAt.UTC().Format(time.RFC3339), ErrOpenAccount)
		}
	}
	return items, nil
}
