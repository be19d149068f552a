package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

var errCover = errors.New("waits until the bank has confirmed the money that it pays out")

// fund is the money that a pending transfer can be paid from.
type fund struct {
	id      uuid.UUID
	account uuid.UUID
	seq     int64 // the sequence number of its debit
	// what may leave ([ledger.Available]) less all debits, including its own
	available money.Amount
	// the same, plus all unconfirmed money and all that recalls and holds keep, except what a
	// policy is to refund
	balance   money.Amount
	behind    money.Amount // of pending transfers whose debits stand behind its own
	others    money.Amount // of all pending transfers of the account but itself
	reversed  money.Amount // taken back by recalls since its debit, and not back since
	heldUntil *time.Time   // when the first hold ends by itself
	// it lacks cover whatever waits behind it, and does not end: behind and others were not read
	short bool
}

// verdicts say what may happen to due transfers.
type verdicts struct {
	covered []*claimed
	short   []postponement
	ends    []ending
}

// cover decides which pending transfers have cover now; whether one may leave is decided by the
// switch in claimAll and, last, by submitSQL. It is called only for transfers of accounts whose
// confirmed money does not cover all of their debits.
//
// A pending transfer is covered if the account's confirmed credits (with AJO_SETTLE_PROVISIONAL,
// all credits that have not proved false) pay for it and for every debit before it in the ledger.
// Later debits do not count: the earlier transfer goes first. For example, an account has 100.00
// confirmed and 80.00 provisional, and three pending transfers, in the ledger's order of 60.00,
// 50.00 and 30.00. The first is covered (60 of 100). The second is not yet (110 of 100), and so is
// the third (140 of 100): both wait, though the third alone would fit.
//
// If the 80.00 prove false, the balance is 100 − 140 = −40. The second transfer still waits: it is
// covered if the first one fails. A transfer ends, and its debit is reversed, only if it could not
// be paid for even if all that is provisional were confirmed and all other pending transfers
// failed: in the example, one of more than 100.00. The transfers of one account are decided one
// after the other, in the ledger's order.
//
// A transfer that is covered when it is checked is still covered when it is submitted, so nothing
// checks again: confirmed credits stay, new debits come after it, and earlier ones can only be
// reversed. A later transfer that leaves meanwhile was covered together with this one. If the
// account had a recall in between, the submission is not made (submitSQL). Two other things can
// remove cover in between: a payout that an operator adopts ([Service.Adopt]), which has left
// already, and, with AJO_SETTLE_PROVISIONAL, a credit that proves false.
//
// A recall, by which the bank takes confirmed money back, ends no transfer: those that lose their
// cover wait for other money, or until somebody cancels them. Nor does a hold of the tenant end
// one, as it can be released. What was taken back before the transfer's debit does not count: that
// money was never its cover. A hold takes no transfer's cover: it is placed only on what all
// debits leave ([ledger.PlaceHold]). What a policy holds to refund it pays for no transfer, as it
// goes back to its sender: a transfer that waited for it would keep the refund waiting for the
// transfer's own debit.
func (s *Service) cover(ctx context.Context, tx pg.Tx, now time.Time, pending []*claimed) (v verdicts, err error) {
	byID := map[uuid.UUID]*claimed{}
	var ids, accounts []uuid.UUID
	for _, st := range pending {
		byID[st.ID] = st
		ids, accounts = append(ids, st.ID), append(accounts, st.AccountID)
	}
	funds, err := s.readFunds(ctx, tx, now, ids, accounts)
	if err != nil {
		return v, err
	}
	freed := map[uuid.UUID]money.Amount{} // by account: the debits that end in this call
	for _, f := range funds {
		st := byID[f.id]
		switch best := f.balance.Add(f.others).Add(f.reversed); {
		case f.short:
			v.short = append(v.short, s.untilCovered(st, now, f))
		case f.available.Add(f.behind).Add(freed[f.account]).Sign() >= 0:
			v.covered = append(v.covered, st)
		case best.Sign() < 0: // what was freed above still counts among the others here
			freed[f.account] = freed[f.account].Add(st.Amount).Add(st.tenantPart.reserved).Add(st.platform.Whole())
			v.ends = append(v.ends, s.ending(st, now, neverCovered))
		default:
			v.short = append(v.short, s.untilCovered(st, now, f))
		}
	}
	return v, nil
}

// untilCovered puts off a transfer that lacks cover.
func (s *Service) untilCovered(st *claimed, now time.Time, f fund) postponement {
	p := s.postponement(st, now, false, errCover)
	if f.heldUntil != nil && f.heldUntil.Before(*p.next) {
		p.next = f.heldUntil
	}
	return p
}

// debited is, as SQL, the sum of the debits of a pending transfer t.
const debited = `t.amount + coalesce(t.reserved_fee, 0) + coalesce(t.platform_fee, 0) + coalesce(t.platform_vat, 0)`

// fundsSQL sums up what accounts have, once each, however many of its transfers are asked for: an
// account may have any number of holds and recalls. It sums up what waits beside a transfer, which
// may be any number too, only for one that may be covered. All debits of the account that stand
// behind a transfer's own are at most what the total has grown by since ("debits_to"). If what the
// account has falls short of the debits even without all of these, the transfer lacks cover. It
// might only end then, but not while the balance, with what recalls took, is not below zero. So
// whoever has very many transfers waiting costs a batch no more than the few that are next.
//
// The total lacks the charges on payments that are under review, and would seem to have grown by
// less: they are added. A payment that counts again after a recall, or a part of it, is in the
// balance: it is not taken back as well. (For the forms of the conditions see package pg,
// plans.go.)
var fundsSQL = `
	WITH has AS MATERIALIZED (
		SELECT b.account_id, ` + ledger.Available("$4", "$3") + ` AS available, b.balance - CASE WHEN b.held_over IS NULL THEN 0 ELSE (
				SELECT coalesce(sum(h.amount), 0) FROM holds h WHERE h.account_id = b.account_id AND h.status = 'open' AND h.source = 'refund') END AS balance,
			CASE WHEN b.held_until <= $3 THEN (
				SELECT min(h.until) FROM holds h WHERE h.account_id = b.account_id AND h.status = 'open' AND h.until > $3) ELSE b.held_until END AS held_until,
			b.total_debits + (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e WHERE e.account_id = b.account_id AND e.review_from_seq >= 0
				AND CASE e.status WHEN 'needs_review' THEN e.direction = 'debit' ELSE false END) AS debits
		FROM ledger_balances b WHERE b.account_id = ANY($2)),
	asked AS MATERIALIZED (
		SELECT t.id, t.account_id, t.debit_seq, t.debits_to FROM transfers t WHERE t.id = ANY($1) AND CASE t.status WHEN 'pending' THEN true ELSE false END),
	taken AS MATERIALIZED (
		SELECT v.account_id, v.seq, greatest(` + ledger.Brought("c") + ` - coalesce((
				SELECT ` + ledger.Brought("n") + ` FROM ledger_entries n WHERE n.id = ANY(payment_entries(c))
					AND CASE WHEN n.seq > v.seq THEN n.confirmed_at IS NOT NULL OR n.status = 'provisional' ELSE false END ORDER BY n.seq LIMIT 1), 0), 0) AS amount
		FROM (SELECT a.account_id, min(a.debit_seq) AS seq FROM asked a JOIN ledger_balances b ON b.account_id = a.account_id AND b.recall_reversed > 0 GROUP BY a.account_id) w
		JOIN ledger_entries v ON v.account_id = w.account_id AND v.seq > w.seq AND v.reversed
		JOIN ledger_entries c ON c.id = ANY(ARRAY[v.reversal_of]) AND c.kind = '' AND c.confirmed_at IS NOT NULL),
	funds AS MATERIALIZED (
		SELECT a.id, a.account_id, a.debit_seq, h.available, h.balance, r.reversed, h.held_until,
			h.available + h.debits < a.debits_to AND h.balance + r.reversed >= 0 AS short
		FROM asked a JOIN has h ON h.account_id = a.account_id
		CROSS JOIN LATERAL (SELECT coalesce(sum(x.amount), 0) AS reversed FROM taken x WHERE x.account_id = a.account_id AND x.seq > a.debit_seq) r),
	waiting AS (
		SELECT t.id,
			coalesce(sum(` + debited + `) OVER (PARTITION BY t.account_id ORDER BY t.debit_seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS behind,
			sum(` + debited + `) OVER (PARTITION BY t.account_id) - (` + debited + `) AS others
		FROM transfers t WHERE t.waiting AND t.account_id = ANY(ARRAY(SELECT account_id FROM funds WHERE NOT short))),
	beside AS MATERIALIZED (SELECT * FROM waiting WHERE id = ANY($1))
	SELECT f.id, f.account_id, f.debit_seq, f.available, f.balance, coalesce(w.behind, 0), coalesce(w.others, 0), f.reversed, f.held_until, f.short
	FROM funds f LEFT JOIN beside w ON w.id = f.id ORDER BY f.account_id, f.debit_seq`

// readFunds reads the funds of the accounts' pending transfers, in the ledger's order, as of one
// moment.
func (s *Service) readFunds(ctx context.Context, tx pg.Tx, now time.Time, ids, accounts []uuid.UUID) ([]fund, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return pg.Collect(ctx, tx, func(r pgx.CollectableRow) (f fund, err error) {
		return f, r.Scan(&f.id, &f.account, &f.seq, &f.available, &f.balance, &f.behind, &f.others, &f.reversed, &f.heldUntil, &f.short)
	}, fundsSQL, ids, accounts, now, s.Provisional)
}
