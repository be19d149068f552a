package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

// maxAround bounds how many lists outside its window a run reads to tell payments apart, and the
// pages of each. maxCandidates bounds how many payments of such lists one payment is compared with.
const (
	maxAround      = 50
	maxAroundPages = 200
	maxCandidates  = 100
)

// posting is a payment of the bank's list that must be posted.
type posting struct {
	t       provider.Transaction
	event   uuid.UUID // its event, which could not be posted; uuid.Nil: none came
	problem string    // why not
}

// alike is a payment in the books that another one may repeat.
type alike struct {
	payment.LookAlike
	at       time.Time
	same     bool // session id, sum and, as far as both name one, account
	reversed bool // it is in no balance
}

// likeness is a payment in lookAlikesSQL.
type likeness struct {
	Account uuid.UUID    `pg:"account"` // the account with the number; uuid.Nil: none
	Number  string       `pg:"number"`
	Alias   string       `pg:"alias"`
	Amount  money.Amount `pg:"amount,numeric"`
	Session string       `pg:"session"`
}

// lookAlikesSQL finds the payments of the books that have the session id of one of many, or its
// account and sum. It reads the time in which these were made once, by the index of
// inbound_events.occurred_at, and looks each row up in hashed lists, so its cost does not grow with
// the number of payments. coalesce hides the condition of other indexes (package pg, plans.go).
var lookAlikesSQL = `
		WITH n AS MATERIALIZED (SELECT ` + pg.Names[likeness]() + ` FROM ` + pg.Unnest[likeness](3, "m") + `)
		SELECT e.id, e.provider_txn_ref, e.occurred_at, e.session_id, e.amount, coalesce(e.account_id, '00000000-0000-0000-0000-000000000000'), e.alias_number, e.alias,
			EXISTS (SELECT FROM ledger_entries l WHERE l.transaction_group_id = e.id AND l.direction = 'credit' AND l.reversal_of IS NULL AND l.status = 'reversed')
				AND NOT EXISTS (SELECT FROM event_keys k WHERE k.request = event_key('replacement:' || e.id))
		FROM inbound_events e
		WHERE e.occurred_at BETWEEN $1 AND $2 AND coalesce(e.authentic, false) AND e.event_type = 'payment_success' AND (e.status IN ('received', 'processed') OR e.misdirected)
			AND (e.session_id IN (SELECT session FROM n WHERE session <> '')
				OR (e.account_id, e.amount) IN (SELECT account, amount FROM n)
				OR (e.alias_number, e.amount) IN (SELECT number, amount FROM n WHERE number <> '')
				OR (e.alias, e.amount) IN (SELECT alias, amount FROM n WHERE alias <> ''))`

// lookAlikes calls note for each payment in the books that one of the list (named by its index) may
// repeat.
func (s *Service) lookAlikes(ctx context.Context, list []posting, note func(i int, o alike)) error {
	if len(list) == 0 {
		return nil
	}
	rows := make([]likeness, len(list))
	numbers := make([]string, len(list))
	for i, p := range list {
		numbers[i] = payment.Clean(p.t.AccountNumber)
		rows[i] = likeness{Number: numbers[i], Alias: payment.Clean(p.t.AccountRef), Amount: p.t.Amount, Session: payment.Clean(p.t.SessionID)}
	}
	accounts := map[string][]uuid.UUID{}
	var number string
	var account uuid.UUID
	found := pg.Rows(ctx, s.pool, `SELECT bank_account_number, id FROM accounts WHERE bank_account_number = ANY($1) AND bank_account_number <> ''`, numbers)
	if _, err := pgx.ForEachRow(found, []any{&number, &account}, func() error {
		accounts[number] = append(accounts[number], account)
		return nil
	}); err != nil {
		return err
	}
	places := map[any][]int{} // by session id, or by account and sum
	first, last := list[0].t.Time, list[0].t.Time
	for i, m := range rows {
		keys := m.keys()
		for _, a := range accounts[m.Number] {
			other := likeness{Account: a, Amount: m.Amount}
			rows, keys = append(rows, other), append(keys, other.keys()...)
		}
		for _, k := range keys {
			places[k] = append(places[k], i)
		}
		if at := list[i].t.Time; at.Before(first) {
			first = at
		} else if at.After(last) {
			last = at
		}
	}
	var e likeness
	var o alike
	found = pg.Rows(ctx, s.pool, lookAlikesSQL, pg.Columns(rows, first.Add(-payment.AlikeWithin), last.Add(payment.AlikeWithin))...)
	_, err := pgx.ForEachRow(found, []any{&o.EventID, &o.TxnRef, &o.at, &e.Session, &e.Amount, &e.Account, &e.Number, &e.Alias, &o.reversed}, func() error {
		for _, k := range e.keys() {
			for _, i := range places[k] {
				m := rows[i]
				both := m.Session != "" && e.Session != ""
				if both && m.Session != e.Session || o.TxnRef == list[i].t.ID || o.at.Sub(list[i].t.Time).Abs() > payment.AlikeWithin {
					continue
				}
				// A bank may give all transfers between its own accounts one session id. Where the
				// list has two of them, another sum or account tells them apart.
				elsewhere := m.Number != "" && e.Number != "" && m.Number != e.Number
				o.same = both && m.Amount.Equal(e.Amount) && !elsewhere
				note(i, o)
			}
		}
		return nil
	})
	return err
}

// keys returns the keys of a payment: another one that shares any of them is alike.
func (m *likeness) keys() (keys []any) {
	type sumOf struct{ what, who, amount string }
	if m.Session != "" {
		keys = append(keys, m.Session)
	}
	amount := m.Amount.String()
	if m.Account != uuid.Nil {
		keys = append(keys, sumOf{"account", m.Account.String(), amount})
	}
	if m.Number != "" {
		keys = append(keys, sumOf{"number", m.Number, amount})
	}
	if m.Alias != "" {
		keys = append(keys, sumOf{"alias", m.Alias, amount})
	}
	return keys
}

// postMissing stores the payments that the books lack, and posts those whose event could not be
// posted. What may be a repeat is decided when the lists beside it have been read.
func (r *comparison) postMissing(ctx context.Context, s *slice) error {
	list := s.missing
	s.missing = nil
	doubted := map[int]bool{}
	if err := r.lookAlikes(ctx, list, func(i int, _ alike) { doubted[i] = true }); err != nil {
		return err
	}
	var sure []posting
	sessions := map[string]bool{}
	for i, p := range list {
		if id := p.t.SessionID; doubted[i] || id != "" && sessions[id] {
			s.doubtful = append(s.doubtful, p)
			continue
		}
		sessions[p.t.SessionID] = true
		sure = append(sure, p)
	}
	if err := r.postSure(ctx, sure); err != nil || len(s.doubtful) < maxDoubtful {
		return err
	}
	return r.decideDoubtful(ctx, s) // on what has been read
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

// decideDoubtful posts the payments that the bank's list shows to be separate, and reports the
// rest.
func (r *comparison) decideDoubtful(ctx context.Context, s *slice) error {
	for len(s.doubtful) > 0 {
		// Of two payments with one session id, the second is decided once the first is in the
		// books.
		var list, later, sure []posting
		sessions := map[string]bool{}
		for _, p := range s.doubtful {
			if id := p.t.SessionID; id != "" && sessions[id] || len(list) == storeRecords {
				later = append(later, p)
			} else {
				list, sessions[id] = append(list, p), true
			}
		}
		twins, err := r.twins(ctx, list)
		if err != nil {
			return err
		}
		for i, p := range list {
			if twin := twins[i]; twin == nil {
				sure = append(sure, p)
			} else if err := r.holdBack(ctx, p, *twin); err != nil {
				return err
			}
			if err := r.extend(ctx); err != nil {
				return err
			}
		}
		if err := r.postSure(ctx, sure); err != nil {
			return err
		}
		s.doubtful = later
	}
	return nil
}

// twins returns, by index, the payments that those of the list may repeat; nil if the bank's list
// has the payment and each that is like it, under ids of their own.
func (r *comparison) twins(ctx context.Context, list []posting) ([]*alike, error) {
	twins := make([]*alike, len(list))
	unseen := map[int][]alike{} // not in the lists that the run has
	look := func(enough func(i int, o alike)) error {
		clear(unseen)
		return r.lookAlikes(ctx, list, func(i int, o alike) {
			switch {
			case twins[i] != nil:
			case o.same:
				twins[i] = &o
			case r.isSeen(o.TxnRef) && r.isSeen(list[i].t.ID):
			case len(unseen[i]) == maxCandidates:
				enough(i, o)
			default:
				unseen[i] = append(unseen[i], o)
			}
		})
	}
	if err := look(func(int, alike) {}); err != nil || len(unseen) == 0 {
		return twins, err
	}
	for i := range unseen {
		if err := r.readAround(ctx, list[i].t.Time); err != nil {
			return nil, err
		}
	}
	if err := look(func(i int, o alike) { twins[i] = &o }); err != nil {
		return nil, err
	}
	for i, p := range list {
		for n := 0; twins[i] == nil && n < len(unseen[i]); n++ {
			o := unseen[i][n]
			for ref, at := range map[string]time.Time{p.t.ID: p.t.Time, o.TxnRef: o.at} {
				listed, err := r.isListed(ctx, ref, at)
				if err != nil {
					return nil, err
				}
				if !listed {
					twins[i] = &o
				}
			}
		}
	}
	return twins, nil
}

// isSeen reports whether a list that the run has read, and keeps, has the id.
func (r *comparison) isSeen(ref string) bool { return r.listed.has(ref) || r.isKept(ref, (*slice).ids) }

// isListed reports whether the bank's list has the id.
func (r *comparison) isListed(ctx context.Context, ref string, at time.Time) (bool, error) {
	if r.isSeen(ref) {
		return true, nil
	}
	err := r.readAround(ctx, at)
	return r.isSeen(ref), err
}

// readAround reads the list around a time that is outside what the run keeps.
func (r *comparison) readAround(ctx context.Context, at time.Time) error {
	from, to := at.Add(-payment.AlikeWithin), at.Add(payment.AlikeWithin+time.Second)
	known := r.around
	if n := len(r.kept); n > 0 {
		known = append([]slice{{from: r.kept[0].from, to: r.kept[n-1].to}}, known...)
	}
	for _, k := range known {
		if !from.Before(k.from) && !to.After(k.to) {
			return nil
		}
	}
	if len(r.around) == maxAround {
		return nil
	}
	from, to = from.Truncate(time.Minute), to.Truncate(time.Minute).Add(time.Minute) // for all of that minute
	r.around = append(r.around, slice{from: from, to: to})
	cursor := ""
	for range maxAroundPages {
		page, err := r.list(ctx, from, to, cursor)
		if r.maySkip(ctx, err) { // what it could tell apart is held back
			return nil
		}
		if err != nil {
			return fmt.Errorf("around a payment: %w", err)
		}
		for _, t := range page.Transactions {
			r.listed.add(t.ID)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// holdBack stores a payment without posting it, unless its event is stored already, and reports it
// until somebody has decided.
func (r *comparison) holdBack(ctx context.Context, p posting, twin alike) error {
	if p.event == uuid.Nil {
		o := r.payments.StoreListed(ctx, []payment.Listed{{Record: p.t, LookAlike: &twin.LookAlike}})[0]
		if o.Err != nil {
			return o.Err
		}
		if o.Value.Duplicate { // its event came at this moment
			return nil
		}
		p.event = o.Value.ID
	}
	r.nameTwin(p, twin)
	return nil
}

// nameTwin reports a payment of the list that is held back. If the payment that it looks like is
// reversed, the money is in the wallet but nowhere in the books.
func (r *comparison) nameTwin(p posting, twin alike) {
	why, effect := twin.Why(), money.Zero
	if twin.reversed {
		why, effect = why+" and is reversed: ajo review restore counts that one", p.t.Amount.Sub(p.t.Fee)
	}
	r.nameLookAlike(p.t.ID, p.event, why, effect, Exception{}.withBank(p.t))
}

func (r *comparison) nameLookAlike(ref string, event uuid.UUID, why string, effect money.Amount, x Exception) {
	x.Kind, x.ProviderTxnRef, x.EventID = LookAlike, ref, &event
	x.Detail = why + "; it is not posted: ajo events repost if it is another payment, ajo reconcile dismiss if it is the same"
	r.unsettled(item{subject: subject{aboutPayment, ref}, exception: &x, effect: effect, since: x.At})
}

// nameHeld reports the events that posting held back, and about which this run has not come to a
// conclusion.
func (r *comparison) nameHeld(ctx context.Context, _ *slice) error {
	rows := pg.Rows(ctx, r.pool, `
		SELECT id, provider_txn_ref, error_message, alias_number, amount, fee, occurred_at FROM inbound_events
		WHERE unposted AND look_alike_of IS NOT NULL ORDER BY id LIMIT $1`, maxItems)
	var id uuid.UUID
	var ref, why string
	var x Exception
	if _, err := pgx.ForEachRow(rows, []any{&id, &ref, &why, &x.AccountNumber, &x.BooksAmount, &x.BooksFee, &x.At}, func() error {
		if ref != "" && !r.judged(subject{aboutPayment, ref}) {
			r.nameLookAlike(ref, id, why, money.Zero, x)
		}
		x = Exception{}
		return nil
	}); err != nil {
		return err
	}
	return r.storeItems(ctx)
}

// storeMissing stores payments whose event never came. An event that comes later, or at this
// moment, is a duplicate; the posting finds the account, or calls the payment misdirected, as
// always.
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
			r.nameUnusable(t.ID, Exception{Detail: "the record could not be stored: " + o.Err.Error()}.withBank(t))
		case o.Err != nil:
			return o.Err
		case o.Value.ToPost():
			stored = append(stored, posting{t: t, event: o.Value.ID})
		default:
			r.settle(aboutPayment, t.ID)
		}
	}
	// An event under another id may have come, and have been posted, between the check and the
	// store. One that comes from here on finds this payment, which is not posted before this look.
	twins, err := r.twins(ctx, stored)
	if err != nil {
		return err
	}
	var sure []uuid.UUID
	for i, p := range stored {
		if twins[i] != nil {
			if err := r.holdStored(ctx, p, *twins[i]); err != nil {
				return err
			}
			continue
		}
		r.part.ToPost = atMost(append(r.part.ToPost, p.event))
		r.part.except(Exception{Kind: MissingEvent, EventID: &p.event, Detail: "its event never came; it is stored now, to be posted"}.withBank(p.t))
		r.settle(aboutPayment, p.t.ID)
		sure = append(sure, p.event)
	}
	if len(sure) == 0 {
		return nil
	}
	return r.payments.PostListed(ctx, sure)
}

// holdStored holds back a payment that was stored a moment ago. If the look took so long that it
// has been posted, it says so.
func (r *comparison) holdStored(ctx context.Context, p posting, twin alike) error {
	held, err := r.payments.HoldBack(ctx, p.event, twin.LookAlike)
	switch {
	case err != nil:
		return err
	case held:
		r.nameTwin(p, twin)
		return nil
	}
	x := Exception{Kind: LookAlike, EventID: &p.event, Detail: twin.Why() + "; both are posted: ajo recalls open takes this one back if it is the same"}.withBank(p.t)
	r.unsettled(item{subject: subject{aboutPayment, p.t.ID}, exception: &x, since: x.At})
	return nil
}
