// Package invariant checks what must hold between the capabilities: that each transfer has its
// debit, each event its credit, each delivery its payment or transfer, and all the reverse; and
// with [ledger.Verify] what must hold within the ledger.
//
// It owns no table and writes none. A full check reads everything as of one moment; the light one,
// which runs all the time, reads sums, and what was posted in the last minutes. (docs/decisions.md,
// "Reconciliation, invariants, tamper evidence".)
package invariant

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/ledger"
)

// The checks between the capabilities.
const (
	CheckTransferDebit    = "each transfer has its debit"
	CheckDebitTransfer    = "each debit has its transfer"
	CheckEventCredit      = "each posted event has its credit"
	CheckCreditEvent      = "each credit has its event"
	CheckPostedOnce       = "a payment is posted once"
	CheckConfirmation     = "each provisional credit is waiting for the bank"
	CheckDeliveryEvent    = "each delivery of a payment has its posted event"
	CheckDeliveryEnd      = "what is delivered of a payment's end has happened"
	CheckDeliveryTransfer = "each delivery of a settlement has its transfer"
	CheckCharges          = "what is booked of the bank's charges for a payout, and borne by its tenant, is its entries"
	CheckRecalls          = "what is held for recalls is what they hold"
	CheckRecallAsked      = "each open or watched recall is waiting for the bank"
	CheckAccountBalance   = "each account has a balance"
	CheckEventKeys        = "no event can be stored once more"
	CheckSuspense         = "a misdirected payment, and no other, is in suspense"
	CheckRefunds          = "no payment is refunded twice"
	CheckPayoutDays       = "the day's sums of limited tenants are their transfers"
	CheckPaymentFees      = "what the platform takes of a payment is what its price says"
	CheckPayoutFees       = "what the platform takes of a payout is what its price says"
	CheckBookTransfer     = "a book transfer has two sides"
	CheckWork             = "what is still to be done is pending work"
)

// suspenseGroup is [ledger.GroupOf] of a misdirected event e: the same half of a SHA-256.
const suspenseGroup = `event_key('suspense:suspense:' || e.id)`

// checks return (subject, detail) of each row that is wrong. Each reads two tables by their keys. A
// table in braces is read whole, or only what belongs to the groups $1 ([of]).
var checks = []struct{ name, sql string }{
	{CheckTransferDebit, `
		SELECT t.merchant_tx_ref, CASE WHEN d.id IS NULL THEN 'it has no debit' WHEN t.status = 'pending' AND t.debit_seq <> d.seq THEN
			format('it waits as number %s of its account; its debit is number %s', t.debit_seq, d.seq) ELSE
			format('%s of %s on account %s; its debit %s is %s of %s on %s for %s', t.status, t.amount, t.account_id, d.id, d.status, d.amount, d.account_id, d.transfer_ref) END
		FROM {transfers} t LEFT JOIN ledger_entries d ON d.transaction_group_id = coalesce(t.debit_group, t.id) AND d.direction = 'debit' AND d.reversal_of IS NULL
		WHERE d.id IS NULL OR d.amount <> coalesce(t.paid_amount, t.amount) OR d.account_id <> t.account_id OR d.tenant_id <> t.tenant_id
			OR d.transfer_ref IS DISTINCT FROM t.merchant_tx_ref OR t.status = 'pending' AND t.debit_seq <> d.seq
			OR d.status <> CASE t.status WHEN 'success' THEN 'confirmed' WHEN 'failed' THEN 'reversed' WHEN 'refunded' THEN 'reversed' ELSE 'provisional' END`},
	{CheckDebitTransfer, `
		SELECT d.id::text, CASE WHEN t.id IS NULL THEN format('a debit of %s for %s, which is no transfer', d.amount, coalesce(d.transfer_ref, 'nothing')) ELSE
			format('%s, and %s has another debit in its place', d.status, d.transfer_ref) END
		FROM {entries} d LEFT JOIN transfers t ON t.merchant_tx_ref = d.transfer_ref
		WHERE d.direction = 'debit' AND d.kind = '' AND d.reversal_of IS NULL AND (t.id IS NULL OR (d.transaction_group_id <> coalesce(t.debit_group, t.id) AND d.status <> 'reversed'))`},
	{CheckCharges, `
		SELECT t.merchant_tx_ref, format('%s and %s of taxes are booked; its entries are of %s and %s. %s is reserved, %s and %s of taxes are debited; its debits are of %s, %s and %s',
			coalesce(t.booked_fee, 0), coalesce(t.booked_taxes, 0), coalesce(c.fee, 0), coalesce(c.taxes, 0),
			coalesce(t.reserved_fee, 0), coalesce(t.tenant_fee, 0), coalesce(t.tenant_taxes, 0), coalesce(c.reserved, 0), coalesce(c.tenant_fee, 0), coalesce(c.tenant_taxes, 0))
		FROM {transfers} t LEFT JOIN LATERAL (
			SELECT sum(e.sum) FILTER (WHERE own AND NOT e.tax) AS fee, sum(e.sum) FILTER (WHERE own AND e.tax) AS taxes,
				sum(e.sum) FILTER (WHERE NOT own AND status = 'provisional') AS reserved,
				sum(e.sum) FILTER (WHERE NOT own AND status = 'confirmed' AND contra <> 'taxes') AS tenant_fee,
				sum(e.sum) FILTER (WHERE NOT own AND status = 'confirmed' AND contra = 'taxes') AS tenant_taxes
			FROM (SELECT CASE direction WHEN 'debit' THEN amount ELSE -amount END AS sum, account_id = (SELECT id FROM system_accounts WHERE name = 'taxes') AS tax,
					tenant_id = account_id AS own, contra, status
				FROM ledger_entries WHERE transfer_ref = t.merchant_tx_ref AND kind = 'fee' AND status <> 'reversed') e) c ON true
		WHERE (coalesce(t.booked_fee, 0), coalesce(t.booked_taxes, 0)) <> (coalesce(c.fee, 0), coalesce(c.taxes, 0))
			OR (coalesce(t.reserved_fee, 0), coalesce(t.tenant_fee, 0), coalesce(t.tenant_taxes, 0)) <> (coalesce(c.reserved, 0), coalesce(c.tenant_fee, 0), coalesce(c.tenant_taxes, 0))
			OR (t.reserved_fee IS NOT NULL AND t.status IN ('failed', 'refunded'))
			OR (t.reserved_fee IS NULL AND (coalesce(t.tenant_fee, 0), coalesce(t.tenant_taxes, 0)) IS DISTINCT FROM
				(least(coalesce(t.tenant_fee, 0), coalesce(t.booked_fee, 0)), least(coalesce(t.tenant_taxes, 0), coalesce(t.booked_taxes, 0))))`},
	// A payment that was posted again with another sum has refunds of several credits: the last one
	// was accepted by the sum of its own. What an operator ended or adopted may be more: the bank
	// has paid what was given up or lost.
	{CheckRefunds, `
		SELECT t.merchant_tx_ref, CASE WHEN e.id IS NULL THEN format('it refunds %s, which is no entry', t.refund_of) ELSE
			format('it refunds a %s of %s with the status %s, of account %s; %s are refunded of it', e.direction, e.amount, e.status, e.account_id, s.sum) END
		FROM {transfers} t LEFT JOIN ledger_entries e ON e.id = t.refund_of
		LEFT JOIN LATERAL (SELECT sum(coalesce(o.paid_amount, o.amount)) AS sum, max(p.amount) AS most, bool_or(o.ended_by = 'operator' OR o.adopted) AS decided
			FROM transfers o JOIN ledger_entries p ON p.id = o.refund_of WHERE o.refund_of = ANY(payment_entries(e)) AND o.status NOT IN ('failed', 'refunded')) s ON true
		WHERE t.refund_of IS NOT NULL AND (e.id IS NULL OR e.tenant_id <> t.tenant_id OR e.account_id <> t.account_id OR e.direction <> 'credit'
			OR e.reversal_of IS NOT NULL OR e.kind NOT IN ('', 'suspense') OR e.status NOT IN ('confirmed', 'reversed')
			OR s.sum > s.most AND NOT s.decided)`},
	{CheckEventCredit, `
		SELECT e.id::text, CASE WHEN c.id IS NULL THEN 'it has no credit' ELSE
			format('%s less %s to account %s; its credit %s is of %s with fee %s on %s', e.amount, e.fee, e.account_id, c.id, c.amount, c.fee, c.account_id) END
		FROM {events} e LEFT JOIN ledger_entries c ON c.transaction_group_id = e.id AND c.direction = 'credit' AND c.reversal_of IS NULL
		WHERE e.status = 'processed' AND (c.id IS NULL OR NOT e.authentic OR e.fee IS NULL OR c.amount <> e.amount - e.fee OR c.fee <> e.fee
			OR c.account_id <> e.account_id OR c.tenant_id IS DISTINCT FROM e.tenant_id OR c.provider_txn_ref <> e.provider_txn_ref)`},
	{CheckEventKeys, `
		SELECT e.id::text, 'it has no key by its request and transaction, or another event''s'
		FROM {events} e LEFT JOIN event_keys k ON k.request = event_key(e.request_id)
		WHERE e.authentic AND (k.event_id IS DISTINCT FROM e.id OR k.event_type <> e.event_type OR k.transaction IS DISTINCT FROM event_key(nullif(e.provider_txn_ref, '')))`},
	{CheckCreditEvent, `
		SELECT c.id::text, CASE WHEN e.id IS NULL THEN 'no event is behind it' ELSE format('its event is %s, not posted', e.status) END
		FROM {entries} c LEFT JOIN inbound_events e ON e.id = c.transaction_group_id
		WHERE c.direction = 'credit' AND c.kind = '' AND c.reversal_of IS NULL AND e.status IS DISTINCT FROM 'processed'`},
	{CheckBookTransfer, `
		SELECT e.id::text, format('a %s of %s, without its other side', e.direction, e.amount)
		FROM {entries} e LEFT JOIN ledger_entries o ON o.transaction_group_id = e.transaction_group_id AND o.direction <> e.direction
		WHERE e.kind = 'book_transfer' AND (o.kind, o.amount, o.tenant_id, o.status) IS DISTINCT FROM (e.kind, e.amount::numeric, e.tenant_id, 'confirmed')`},
	{CheckPaymentFees, paymentFeesSQL},
	{CheckPayoutFees, payoutFeesSQL},
	{CheckSuspense, `
		SELECT e.id::text, format('%s: credited %s and debited %s, of %s', coalesce(nullif(e.category, ''), e.status), coalesce(s.credits, 0), coalesce(s.debits, 0), e.amount - e.fee)
		FROM {events} e LEFT JOIN (
			SELECT transaction_group_id, sum(amount) FILTER (WHERE direction = 'credit') AS credits, sum(amount) FILTER (WHERE direction = 'debit') AS debits
			FROM ledger_entries WHERE account_id = (SELECT id FROM system_accounts WHERE name = 'suspense') AND tenant_id = account_id AND kind = 'suspense'
			GROUP BY 1) s ON s.transaction_group_id = ` + suspenseGroup + `
		WHERE (e.misdirected OR s.credits IS NOT NULL) AND (coalesce(s.credits, 0), coalesce(s.debits, 0)) IS DISTINCT FROM
			(coalesce(e.amount - e.fee, 0), CASE WHEN e.misdirected THEN 0 ELSE coalesce(e.amount - e.fee, 0) END)`},
	{CheckConfirmation, `
		SELECT c.id::text, 'provisional, and nobody will ask the bank about it'
		FROM {entries} c JOIN inbound_events e ON e.id = c.transaction_group_id
		WHERE c.direction = 'credit' AND c.status = 'provisional' AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'confirm' AND w.id = e.id)`},
	{CheckDeliveryEvent, `
		SELECT d.id::text, CASE WHEN e.id IS NULL THEN 'it is about no event' ELSE
			format('of account %s, saying %s; its event is %s, to account %s, of %s', d.account_id,
				coalesce(` + deliveredSum + `, 'nothing'), e.status, e.account_id, e.amount - e.fee) END
		FROM {deliveries} d LEFT JOIN inbound_events e ON e.id = d.transaction_group_id
		WHERE d.event_type LIKE 'payment.%' AND (e.status IS DISTINCT FROM 'processed' OR e.account_id <> d.account_id OR e.tenant_id IS DISTINCT FROM d.tenant_id
			OR ` + deliveredSum + ` IS DISTINCT FROM to_char(e.amount - e.fee, 'FM999999999999999990.00'))`},
	{CheckDeliveryEnd, `
		SELECT d.id::text, format('it says %s; the credit is %s', d.event_type, coalesce(c.status, 'missing'))
		FROM {deliveries} d LEFT JOIN ledger_entries c ON c.transaction_group_id = d.transaction_group_id AND c.direction = 'credit' AND c.reversal_of IS NULL
		WHERE d.event_type IN ('payment.confirmed', 'payment.reversed') AND c.status IS DISTINCT FROM substring(d.event_type FROM 9)
			AND NOT (d.event_type = 'payment.confirmed' AND c.status = 'reversed' AND EXISTS (SELECT FROM recalls r WHERE r.event_id = c.transaction_group_id AND r.status = 'reversed'))`},
	{CheckDeliveryTransfer, `
		SELECT d.id::text, CASE WHEN t.id IS NULL THEN 'it is about no transfer' ELSE
			format('%s of account %s, saying %s; its transfer is %s, from account %s, of %s', d.event_type, d.account_id,
				coalesce(` + deliveredSum + `, 'nothing'), t.status, t.account_id, t.amount) END
		FROM {deliveries} d LEFT JOIN transfers t ON t.id = coalesce((SELECT o.id FROM transfers o WHERE o.id = d.transaction_group_id), (
			SELECT o.id FROM ledger_entries e JOIN transfers o ON o.merchant_tx_ref = e.transfer_ref
			WHERE e.transaction_group_id = d.transaction_group_id AND e.direction = 'debit' AND e.reversal_of IS NULL))
		WHERE d.event_type NOT LIKE 'payment.%' AND (t.id IS NULL OR t.account_id <> d.account_id OR t.tenant_id <> d.tenant_id
			OR ` + deliveredSum + ` IS DISTINCT FROM to_char(t.amount, 'FM999999999999999990.00')
			OR NOT t.status = ANY (CASE WHEN t.debit_group IS NOT NULL AND d.event_type LIKE 'settlement.%' THEN '{success,failed,refunded}'
				WHEN d.event_type = 'settlement.succeeded' THEN '{success,refunded}' WHEN d.event_type = 'settlement.failed' THEN '{failed}'
				WHEN d.event_type = 'settlement.refunded' THEN '{refunded}' ELSE '{}' END::text[]))`},
	{CheckWork, `
		SELECT e.id::text, 'an event that nobody will post' FROM {events} e
		WHERE e.status = 'received' AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'ingest' AND w.id = e.id)
		UNION ALL
		SELECT d.id::text, 'a delivery that nobody will make' FROM {deliveries} d
		WHERE d.status = 'pending' AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'deliver' AND w.id = d.id)
		UNION ALL
		SELECT t.id::text, format('%s, and nobody will submit it or ask the bank about it', t.status) FROM {transfers} t
		WHERE t.status IN ('pending', 'processing') AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'settle' AND w.id = t.id)`},
}

// deliveredSum is the sum that a delivery tells its tenant, as a text: of a stored body in full, or
// of its second value or, of a settlement, its third (package webhook, body.go). The body is read
// as bytes, since a damaged one is no text.
const deliveredSum = `substring(encode(d.body, 'escape') FROM '(?:"amount":"|^1[^\n]*\n|^2[^\n]*\n[^\n]*\n)([0-9.]+)(?:"|\n)')`

// fewChecks are checks that cost the same whatever the history: they go by the accounts, and by
// recalls.
var fewChecks = []struct{ name, sql string }{
	{CheckRecalls, `
		WITH r AS (SELECT account_id, sum(held) AS held FROM recalls WHERE status = 'open' GROUP BY account_id)
		SELECT coalesce(b.account_id, r.account_id)::text, format('%s is held for recalls, the open ones hold %s', coalesce(b.recall_held, 0), coalesce(r.held, 0))
		FROM ledger_balances b FULL JOIN r USING (account_id) WHERE coalesce(b.recall_held, 0) <> coalesce(r.held, 0)
		UNION ALL
		SELECT r.event_id::text, format('%s, with %s held; its credit is %s of %s', r.status, r.held, coalesce(c.status, 'missing'), c.amount)
		FROM recalls r LEFT JOIN ledger_entries c ON c.transaction_group_id = r.event_id AND c.direction = 'credit' AND c.reversal_of IS NULL
		WHERE c.id IS NULL OR r.status = 'reversed' AND c.status <> 'reversed'
			OR r.status = 'open' AND r.held <> CASE WHEN c.status IN ('provisional', 'confirmed') THEN greatest(c.amount - CASE WHEN c.status <> 'confirmed' THEN 0 ELSE (
				SELECT coalesce(sum(CASE WHEN p.entry_id = c.id THEN p.amount - p.taken_back ELSE (
					SELECT coalesce(sum(h.amount), 0) FROM ledger_entries s JOIN holds h ON h.entry_id = ANY(ARRAY[s.id])
					WHERE s.transaction_group_id = p.group_id AND s.direction = 'credit' AND h.status = 'open' AND h.source = 'recall') END), 0)
				FROM split_parts p WHERE p.entry_id = ANY(payment_entries(c)) AND p.group_id IS NOT NULL) END - CASE WHEN c.price_id IS NULL THEN 0 ELSE (
				SELECT coalesce(sum(f.amount), 0) FROM ledger_entries f
				WHERE f.transaction_group_id IN (` + chargeGroup("platform_revenue", "r.event_id") + `, ` + chargeGroup("taxes", "r.event_id") + `) AND f.reversal_of IS NULL) END, 0) ELSE 0 END`},
	{CheckRecallAsked, `
		SELECT r.event_id::text, format('a recall is %s, and nobody will ask the bank about it', r.status)
		FROM recalls r WHERE r.status` + ledger.RecallStands + ` AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'confirm' AND w.id = r.event_id)`},
	{CheckAccountBalance, `
		SELECT a.id::text, CASE WHEN b.account_id IS NULL THEN 'it has none' ELSE format('of tenant %s, the account''s is %s', b.tenant_id, a.tenant_id) END
		FROM accounts a LEFT JOIN ledger_balances b ON b.account_id = a.id WHERE a.status <> 'provisioning' AND b.account_id IS NULL OR b.tenant_id <> a.tenant_id`},
	{CheckWork, `
		SELECT a.id::text, format('%s, and nobody will end or close it', a.status) FROM accounts a
		WHERE (a.status = 'expired' AND a.closed_at IS NULL OR a.status = 'active' AND a.expires_at IS NOT NULL)
			AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'expire' AND w.id = a.id)`},
}

// postedOnceSQL reads all credits. Of some groups only, a payment's other credits are found by its
// events, whose reference is the credit's (CheckEventCredit).
const (
	postedOnceSQL = `
		SELECT provider_txn_ref, format('%s credits', count(*)) FROM ledger_entries
		WHERE direction = 'credit' AND kind = '' AND reversal_of IS NULL AND status <> 'reversed' AND provider_txn_ref <> '' GROUP BY provider_txn_ref HAVING count(*) > 1`
	postedAgainSQL = `
		SELECT e.provider_txn_ref, format('%s credits', count(DISTINCT c.id))
		FROM unnest($1::uuid[]) AS g (id) JOIN inbound_events e ON e.id = ANY(ARRAY[g.id])
		JOIN event_keys k ON k.transaction = ANY(ARRAY[event_key(nullif(e.provider_txn_ref, ''))])
		JOIN ledger_entries c ON c.transaction_group_id = k.event_id AND c.direction = 'credit' AND c.reversal_of IS NULL AND c.status <> 'reversed'
		GROUP BY e.provider_txn_ref HAVING count(DISTINCT c.id) > 1`
)

// payoutDaysSQL reads all transfers.
const payoutDaysSQL = `
	WITH t AS (
		SELECT t.tenant_id, s.subject, (t.created_at AT TIME ZONE 'UTC' + interval '1 hour')::date AS day,
			sum(CASE WHEN t.unpaid THEN 0 ELSE coalesce(t.paid_amount, t.amount) END) AS paid
		FROM transfers t CROSS JOIN LATERAL unnest(ARRAY[t.tenant_id, t.account_id]) AS s (subject) WHERE t.counted GROUP BY 1, 2, 3)
	SELECT format('%s on %s', coalesce(d.subject, t.subject), coalesce(d.day, t.day)), format('%s; its transfers have %s', coalesce(d.paid, 0), coalesce(t.paid, 0))
	FROM payout_days d FULL JOIN t USING (tenant_id, subject, day) WHERE coalesce(d.paid, 0) <> coalesce(t.paid, 0)`

// A check's tables, of all groups and of those that $1 names.
var (
	whole = strings.NewReplacer("{transfers}", "transfers", "{entries}", "ledger_entries", "{events}", "inbound_events", "{deliveries}", "deliveries")
	of    = strings.NewReplacer(
		"{transfers}", "(SELECT * FROM transfers WHERE id = ANY($1) OR debit_group = ANY($1))",
		"{entries}", "(SELECT * FROM ledger_entries WHERE transaction_group_id = ANY($1))",
		"{events}", "(SELECT e.* FROM unnest($1::uuid[]) AS g (id) JOIN inbound_events e ON e.id = ANY(ARRAY[g.id]))",
		"{deliveries}", "(SELECT * FROM deliveries WHERE transaction_group_id = ANY($1))")
)

const (
	// groupsAtOnce is how many groups one statement checks.
	groupsAtOnce = 2000
	// sinceMargin is how much older than its row's transaction an id may be: clocks of processes
	// differ, and a row may wait.
	sinceMargin = time.Hour
	// newGroupsSQL are the groups of the rows whose ids are newer than $1.
	newGroupsSQL = `
		SELECT id FROM inbound_events WHERE id > $1 UNION SELECT id FROM transfers WHERE id > $1
		UNION SELECT transaction_group_id FROM deliveries WHERE id > $1`
)

// Verify checks everything, within the ledger and between the capabilities, as of one moment, and
// returns what does not hold, at most 1,000 findings a check. It reads all rows and changes none:
// for tests.
func Verify(ctx context.Context, pool *pg.Pool) ([]ledger.Finding, error) {
	r, err := read(ctx, pool, ledger.Reading{All: true})
	if err != nil {
		return nil, err
	}
	return r.Findings, nil
}

// Resume is [Verify] from the checkpoints on, and moves these if nothing was found. What belongs to
// an entry is read if the entry is new or may have changed since its account's checkpoint, or if
// the event, transfer or delivery itself is new.
func Resume(ctx context.Context, pool *pg.Pool, reading ledger.Reading) (*ledger.Report, error) {
	r, err := read(ctx, pool, reading)
	if err != nil {
		return nil, err
	}
	if err := r.Save(ctx, pool); err != nil {
		return nil, fmt.Errorf("the books agree, but the checkpoints were not stored: %w", err)
	}
	return r, nil
}

func read(ctx context.Context, pool *pg.Pool, reading ledger.Reading) (r *ledger.Report, err error) {
	err = pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if r, err = ledger.Read(ctx, tx, reading); err != nil {
			return err
		}
		add := func(check, sql string, args ...any) error {
			found, err := ledger.Query(ctx, tx, check, sql, args...)
			r.Findings = append(r.Findings, found...)
			return err
		}
		for _, c := range fewChecks {
			if err := add(c.name, c.sql); err != nil {
				return err
			}
		}
		if r.All {
			for _, c := range checks {
				if err := add(c.name, whole.Replace(c.sql)); err != nil {
					return err
				}
			}
			if err := add(CheckPayoutDays, payoutDaysSQL); err != nil {
				return err
			}
			return add(CheckPostedOnce, postedOnceSQL)
		}
		return readGroups(ctx, tx, r, add)
	})
	return r, err
}

// readGroups runs the checks for the groups of the report, and for those of newer rows.
func readGroups(ctx context.Context, tx pg.Tx, r *ledger.Report, add func(check, sql string, args ...any) error) error {
	newer, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], newGroupsSQL, idAt(r.Since.Add(-sinceMargin)))
	if err != nil {
		return err
	}
	for _, id := range newer {
		r.Groups[id] = struct{}{}
	}
	if err := pg.PlanAsBatch(ctx, tx); err != nil {
		return err
	}
	for ids := range slices.Chunk(slices.SortedFunc(maps.Keys(r.Groups), pg.CompareIDs), groupsAtOnce) {
		for _, c := range checks {
			if err := add(c.name, of.Replace(c.sql), ids); err != nil {
				return err
			}
		}
		if err := add(CheckPostedOnce, postedAgainSQL, ids); err != nil {
			return err
		}
	}
	return nil
}
