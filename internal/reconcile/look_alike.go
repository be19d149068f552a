package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

// maxAround bounds how many lists beside its window a run reads to tell payments apart, and the
// pages of one.
const (
	maxAround      = 50
	maxAroundPages = 200
)

// posting is a payment of the bank's list that is to be posted.
type posting struct {
	t       provider.Transaction
	event   uuid.UUID // its event, which could not be posted; uuid.Nil: none came
	problem string    // why not
}

// alike is a payment of the books that another may be a repeat of.
type alike struct {
	payment.LookAlike
	at          time.Time
	sameSession bool
}

// lookAlikesSQL goes by the time of the payments, which the index of inbound_events.occurred_at
// finds.
const lookAlikesSQL = `
		SELECT n.i, e.id, e.provider_txn_ref, e.occurred_at, n.session <> '' AND e.session_id = n.session
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[]) WITH ORDINALITY AS n (ref, number, alias, amount, at, session, i)
		JOIN inbound_events e ON e.occurred_at BETWEEN n.at - $7::interval AND n.at + $7::interval AND e.provider_txn_ref <> n.ref
		LEFT JOIN accounts a ON a.id = e.account_id
		WHERE e.occurred_at BETWEEN $8 AND $9 AND e.authentic AND e.event_type = 'payment_success' AND e.status IN ('received', 'processed')
			AND CASE WHEN n.session <> '' AND e.session_id <> '' THEN e.session_id = n.session
				ELSE e.amount = n.amount::numeric AND (n.number <> '' AND n.number IN (a.bank_account_number, e.alias_number) OR n.alias <> '' AND e.alias = n.alias) END
		ORDER BY n.i, e.id`

// lookAlikes finds, for each payment by its place, the payments of the books that it may be a
// repeat of.
func (s *Service) lookAlikes(ctx context.Context, list []posting) (map[int][]alike, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var refs, numbers, aliases, amounts, sessions []string
	var at []time.Time
	for _, p := range list {
		refs, numbers, aliases = append(refs, p.t.ID), append(numbers, payment.Clean(p.t.AccountNumber)), append(aliases, payment.Clean(p.t.AccountRef))
		amounts, at, sessions = append(amounts, p.t.Amount.String()), append(at, p.t.Time), append(sessions, payment.Clean(p.t.SessionID))
	}
	first, last := slices.MinFunc(at, time.Time.Compare), slices.MaxFunc(at, time.Time.Compare)
	rows, err := s.pool.Query(ctx, lookAlikesSQL, refs, numbers, aliases, amounts, at, sessions, payment.AlikeWithin, first.Add(-payment.AlikeWithin), last.Add(payment.AlikeWithin))
	if err != nil {
		return nil, err
	}
	found := map[int][]alike{}
	var place int
	var a alike
	_, err = pgx.ForEachRow(rows, []any{&place, &a.EventID, &a.TxnRef, &a.at, &a.sameSession}, func() error {
		found[place-1] = append(found[place-1], a)
		return nil
	})
	return found, err
}

// postMissing stores the payments that the books lack, and posts those whose event could not be
// posted. What may be a repeat is decided when the list has been read to its end.
func (r *comparison) postMissing(ctx context.Context, list []posting) error {
	others, err := r.lookAlikes(ctx, list)
	if err != nil {
		return err
	}
	var sure []posting
	sessions := map[string]bool{}
	for i, p := range list {
		if id := p.t.SessionID; len(others[i]) > 0 || id != "" && sessions[id] {
			r.doubt(p)
			continue
		}
		sessions[p.t.SessionID] = true
		sure = append(sure, p)
	}
	return r.postSure(ctx, sure)
}

// doubt leaves a payment to be decided when the list has been read to its end.
func (r *comparison) doubt(p posting) {
	if _, again := r.doubted[p.t.ID]; !again {
		r.doubted[p.t.ID] = struct{}{}
		r.doubtful = append(r.doubtful, p)
	}
}

func (r *comparison) postSure(ctx context.Context, list []posting) error {
	var missing []posting
	for _, p := range list {
		if p.event == uuid.Nil {
			missing = append(missing, p)
		} else if err := r.heal(ctx, p); err != nil {
			return err
		}
	}
	return r.storeMissing(ctx, missing)
}

// decideDoubtful posts what the bank's list shows to be a payment of its own, and names the rest.
// It begins with the events that were held back when they came.
func (r *comparison) decideDoubtful(ctx context.Context) error {
	if err := r.nameHeld(ctx); err != nil {
		return err
	}
	for _, p := range r.doubtful {
		// anew: of two in doubt, the first may be posted by now
		found, err := r.lookAlikes(ctx, []posting{p})
		if err != nil {
			return err
		}
		twin, err := r.twin(ctx, p.t, found[0])
		if err != nil {
			return err
		}
		if twin == nil {
			err = r.postSure(ctx, []posting{p})
		} else {
			err = r.holdBack(ctx, p, *twin)
		}
		if err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// twin is the payment that t may be a repeat of; nil when the bank's list has t and each of the
// others under its own id.
func (r *comparison) twin(ctx context.Context, t provider.Transaction, others []alike) (*alike, error) {
	for _, o := range others {
		if o.sameSession {
			return &o, nil
		}
		for _, p := range []struct {
			ref string
			at  time.Time
		}{{t.ID, t.Time}, {o.TxnRef, o.at}} {
			listed, err := r.isListed(ctx, p.ref, p.at)
			if err != nil {
				return nil, err
			}
			if !listed {
				return &o, nil
			}
		}
	}
	return nil, nil
}

// isListed tells whether the bank's list has the id. Where its time may lie outside of the window,
// the list around it is read.
func (r *comparison) isListed(ctx context.Context, ref string, at time.Time) (bool, error) {
	_, seen := r.seen[ref]
	from, to := at.Add(-payment.AlikeWithin), at.Add(payment.AlikeWithin+time.Second)
	if seen || !from.Before(r.report.From) && !to.After(r.report.To) || r.around >= maxAround {
		return seen, nil
	}
	r.around++
	cursor := ""
	for range maxAroundPages {
		page, err := r.list(ctx, from, to, cursor)
		if err != nil {
			return false, fmt.Errorf("the bank's list around a payment: %w", err)
		}
		for _, t := range page.Transactions {
			r.seen[t.ID] = struct{}{}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if err := r.extend(ctx); err != nil {
			return false, err
		}
	}
	_, seen = r.seen[ref]
	return seen, nil
}

// holdBack stores a payment without posting it, if its event is not stored yet, and names it until
// somebody has decided.
func (r *comparison) holdBack(ctx context.Context, p posting, twin alike) error {
	if p.event == uuid.Nil {
		o := r.payments.StoreListed(ctx, []payment.Listed{{Record: p.t, LookAlike: &twin.LookAlike}})[0]
		if o.Err != nil {
			return o.Err
		}
		if o.Value.Duplicate { // its event has come at this moment
			return nil
		}
		p.event = o.Value.ID
	}
	r.nameLookAlike(p.t.ID, p.event, twin.Why(), Exception{}.withBank(p.t))
	return nil
}

func (r *comparison) nameLookAlike(ref string, event uuid.UUID, why string, x Exception) {
	x.Kind, x.ProviderTxnRef, x.EventID = LookAlike, ref, &event
	x.Detail = why + "; it is not posted: ajo events repost if it is another payment, ajo reconcile dismiss if it is the same"
	r.hold(item{subject: subject{aboutPayment, ref}, exception: &x})
}

// nameHeld names the events that were held back when they were posted, and that this run has not
// come to a conclusion about.
func (r *comparison) nameHeld(ctx context.Context) error {
	rows, err := r.pool.Query(ctx, `
		SELECT id, provider_txn_ref, error_message, alias_number, amount, fee, occurred_at FROM inbound_events
		WHERE authentic AND status = 'failed' AND look_alike_of IS NOT NULL ORDER BY id LIMIT $1`, maxItems)
	if err != nil {
		return err
	}
	var id uuid.UUID
	var ref, why string
	var x Exception
	_, err = pgx.ForEachRow(rows, []any{&id, &ref, &why, &x.AccountNumber, &x.BooksAmount, &x.BooksFee, &x.At}, func() error {
		if ref != "" && !r.judged(subject{aboutPayment, ref}) {
			r.nameLookAlike(ref, id, why, x)
		}
		x = Exception{}
		return nil
	})
	return err
}

// storeMissing stores payments whose event never came. An event that comes later, or at this
// moment, is a duplicate; the posting finds the account, or calls the payment misdirected, as it
// does with any.
func (r *comparison) storeMissing(ctx context.Context, missing []posting) error {
	if len(missing) == 0 {
		return nil
	}
	list := make([]payment.Listed, len(missing))
	for i, p := range missing {
		list[i] = payment.Listed{Record: p.t}
	}
	var stored []posting
	for i, o := range r.payments.StoreListed(ctx, list) {
		t := missing[i].t
		switch {
		case pg.IsData(o.Err):
			r.nameUnreadable(t.ID, Exception{Detail: "the record could not be stored: " + o.Err.Error()}.withBank(t))
		case o.Err != nil:
			return o.Err
		case o.Value.ToPost():
			stored = append(stored, posting{t: t, event: o.Value.ID})
		default:
			r.settle(aboutPayment, t.ID)
		}
	}
	// An event under another id may have come between the look for one and the store. One that
	// comes from here on finds this.
	others, err := r.lookAlikes(ctx, stored)
	if err != nil {
		return err
	}
	for i, p := range stored {
		if found := others[i]; len(found) > 0 {
			twin, err := r.twin(ctx, p.t, found)
			if err == nil && twin != nil {
				err = r.holdStored(ctx, p, *twin)
			}
			if err != nil || twin != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		r.report.ToPost = append(r.report.ToPost, p.event)
		r.report.except(Exception{Kind: MissingEvent, EventID: &p.event, Detail: "its event never came; it is stored now, to be posted"}.withBank(p.t))
		r.settle(aboutPayment, p.t.ID)
	}
	return nil
}

// holdStored holds a payment back that was stored a moment ago.
func (r *comparison) holdStored(ctx context.Context, p posting, twin alike) error {
	err := r.payments.HoldBack(ctx, p.event, twin.LookAlike)
	r.nameLookAlike(p.t.ID, p.event, twin.Why(), Exception{}.withBank(p.t))
	return err
}
