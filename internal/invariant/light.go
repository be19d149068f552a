package invariant

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/freeze"
	"ajo/internal/pg"
	"ajo/ledger"
)

const (
	// recentFor is how far back the light check looks: more than the time between two of them.
	recentFor = 5 * time.Minute
	// recentRows bounds what it reads of each kind, the newest first.
	recentRows = 10_000
)

// State is what the light check saw: what is open, how old the oldest of it is, and what does not
// hold.
type State struct {
	Accounts          int64
	NegativeBalances  int64
	OddBalances       int64 // balances whose sums cannot be
	ProvisionalOldest time.Duration
	ProvisionalCount  int64
	ProvisionalNaira  int64         // the sum of the provisional credits, without its kobo
	GoesBackCount     int64         // payments whose refund by policy waits, confirmed as they are
	GoesBackOldest    time.Duration // since the oldest of them was posted
	ReviewCount       int64         // payments
	RecallCount       int64         // recalls that are open
	WatchedCount      int64         // recalls that the bank's record contradicts, and is asked about
	RecallOldest      time.Duration // since the oldest was opened
	FreezeCount       int64         // freezes that stand
	FreezeOldest      time.Duration // since the oldest of them began
	UnpostedCount     int64         // events that wait to be posted
	UnpostedOldest    time.Duration
	MisdirectedCount  int64
	RefusedCount      int64 // payments that a reconciliation found at the bank, and that cannot be posted
	PendingCount      int64 // transfers that have not been submitted, and that nothing stops
	PendingOldest     time.Duration
	StoppedCount      int64 // those that a freeze or a suspension stops
	StoppedOldest     time.Duration
	ProcessingCount   int64
	ProcessingOldest  time.Duration
	// transfers whose record at the bank says what the books do not, and that nobody has dealt with
	DifferingCount int64
	DeadLetters    int64
	Findings       []ledger.Finding
}

// recent are the checks of what was posted since $1, a UUIDv7 of that time, and of at most $2 rows.
var recent = []struct{ name, sql string }{
	{ledger.CheckRunning, `
		WITH e AS (
			SELECT n.id, n.seq, n.running_balance, p.seq AS before, coalesce(p.running_balance, 0)
				+ CASE n.direction WHEN 'credit' THEN n.amount ELSE -n.amount END
				+ coalesce((SELECT sum(CASE h.direction WHEN 'credit' THEN h.amount ELSE -h.amount END)
					FROM ledger_entries h WHERE h.account_id = n.account_id AND h.review_to_seq = n.seq - 1), 0)
				- coalesce((SELECT sum(CASE h.direction WHEN 'credit' THEN h.amount ELSE -h.amount END)
					FROM ledger_entries h WHERE h.account_id = n.account_id AND h.review_from_seq = n.seq - 1), 0) AS want
			FROM (SELECT * FROM ledger_entries WHERE id > $1 ORDER BY id DESC LIMIT $2) n
			LEFT JOIN ledger_entries p ON p.account_id = n.account_id AND p.seq = n.seq - 1)
		SELECT id::text, format('running balance %s, not %s', running_balance, want) FROM e
		WHERE (seq = 1 OR before IS NOT NULL) AND running_balance <> want`},
	{ledger.CheckSequence, `
		WITH e AS (SELECT id, account_id, seq FROM ledger_entries WHERE id > $1 ORDER BY id DESC LIMIT $2)
		SELECT e.id::text, format('number %s, and there is none before it', e.seq)
		FROM e LEFT JOIN ledger_entries p ON p.account_id = e.account_id AND p.seq = e.seq - 1 WHERE e.seq > 1 AND p.id IS NULL`},
	{ledger.CheckChain, `
		WITH a AS (SELECT DISTINCT account_id FROM (SELECT account_id FROM ledger_entries WHERE id > $1 ORDER BY id DESC LIMIT $2) e)
		SELECT b.account_id::text, format('its newest entry is number %s, its balance says %s', e.seq, b.last_seq)
		FROM a JOIN ledger_balances b USING (account_id)
		JOIN LATERAL (SELECT seq, hash FROM ledger_entries WHERE account_id = b.account_id ORDER BY seq DESC LIMIT 1) e ON true
		WHERE e.seq <> b.last_seq OR e.hash IS DISTINCT FROM b.chain_head`},
	{CheckCreditEvent, `
		WITH c AS (SELECT id, transaction_group_id, amount, fee, account_id, direction, reversal_of, kind FROM ledger_entries WHERE id > $1 ORDER BY id DESC LIMIT $2)
		SELECT c.id::text, 'no posted event is behind it, or one of another sum or account'
		FROM c LEFT JOIN inbound_events e ON e.id = ANY(ARRAY[c.transaction_group_id])
		WHERE c.direction = 'credit' AND c.kind = '' AND c.reversal_of IS NULL AND (e.status IS DISTINCT FROM 'processed' OR e.amount - e.fee <> c.amount OR e.account_id <> c.account_id)`},
	{CheckDebitTransfer, `
		WITH d AS (SELECT id, transaction_group_id, amount, account_id, direction, reversal_of, status, transfer_ref, kind FROM ledger_entries WHERE id > $1 ORDER BY id DESC LIMIT $2)
		SELECT d.id::text, 'no transfer is behind it, or one of another sum or account'
		FROM d LEFT JOIN transfers t ON t.merchant_tx_ref = d.transfer_ref
		WHERE d.direction = 'debit' AND d.kind = '' AND d.reversal_of IS NULL AND (t.id IS NULL OR t.account_id <> d.account_id OR CASE
			WHEN d.transaction_group_id = coalesce(t.debit_group, t.id) THEN d.amount <> coalesce(t.paid_amount, t.amount) ELSE d.status <> 'reversed' END)`},
	{CheckTransferDebit, `
		WITH t AS (SELECT id, merchant_tx_ref, status, debit_group FROM transfers WHERE id > $1 ORDER BY id DESC LIMIT $2)
		SELECT t.merchant_tx_ref, format('%s, its debit is %s', t.status, coalesce(d.status, 'not there'))
		FROM t LEFT JOIN ledger_entries d ON d.transaction_group_id = coalesce(t.debit_group, t.id) AND d.direction = 'debit' AND d.reversal_of IS NULL
		WHERE d.status IS DISTINCT FROM CASE t.status WHEN 'success' THEN 'confirmed' WHEN 'failed' THEN 'reversed' WHEN 'refunded' THEN 'reversed' ELSE 'provisional' END`},
	{CheckEventCredit, `
		WITH e AS (SELECT id, status FROM inbound_events WHERE id > $1 ORDER BY id DESC LIMIT $2)
		SELECT e.id::text, 'it has no credit'
		FROM e LEFT JOIN ledger_entries c ON c.transaction_group_id = e.id AND c.direction = 'credit' WHERE e.status = 'processed' AND c.id IS NULL`},
}

// sumsShare and sumsTimeout say how much of the time the sums of all balances may be read, a
// hundredth, and how long one reading may take.
const (
	sumsShare   = 100
	sumsTimeout = time.Minute
)

// Checker repeats the light check. It is not safe for concurrent use.
type Checker struct {
	sums  sums
	known bool
	again time.Time // when the sums are read again
}

// sums are of all balances. To read them costs as much as there are accounts.
type sums struct{ accounts, negative, odd, provisional int64 }

// Light is [Checker.Light], once.
func Light(ctx context.Context, pool *pg.Pool, now time.Time) (State, error) {
	return new(Checker).Light(ctx, pool, now)
}

// Light reads what is open, and what was posted in the last five minutes, as of one moment. Its
// cost goes with the number of open rows, and with at most 10,000 recent rows of a kind; not with
// the history. The sums of the balances may be older, the more accounts there are.
func (c *Checker) Light(ctx context.Context, pool *pg.Pool, now time.Time) (State, error) {
	if err := c.readSums(ctx, pool); err != nil {
		return State{}, fmt.Errorf("the sums of the balances: %w", err)
	}
	s := State{Accounts: c.sums.accounts, NegativeBalances: c.sums.negative, OddBalances: c.sums.odd, ProvisionalNaira: c.sums.provisional}
	if s.OddBalances > 0 {
		s.Findings = append(s.Findings, ledger.Finding{Check: ledger.CheckTotals, Subject: "balances", Detail: fmt.Sprintf("%d have sums that cannot be", s.OddBalances)})
	}
	err := pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if err := s.read(ctx, tx, now); err != nil {
			return err
		}
		since := idAt(now.Add(-recentFor))
		for _, c := range recent {
			found, err := ledger.Query(ctx, tx, c.name, c.sql, since, recentRows)
			if err != nil {
				return err
			}
			s.Findings = append(s.Findings, found...)
		}
		return nil
	})
	return s, err
}

// readSums reads the sums of the balances, if it is time. Of a failure after the first time it says
// so once: until it is time again, the last ones count.
func (c *Checker) readSums(ctx context.Context, pool *pg.Pool) error {
	begun := time.Now()
	if begun.Before(c.again) {
		return nil
	}
	var n sums
	err := pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if err := pg.SetTimeout(ctx, tx, sumsTimeout); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			SELECT count(*), count(*) FILTER (WHERE balance < 0),
				count(*) FILTER (WHERE provisional_credits > total_credits OR (last_seq = 0 AND (total_credits, total_debits) <> (0, 0))), trunc(coalesce(sum(provisional_credits), 0))::bigint
			FROM ledger_balances WHERE tenant_id <> account_id`).Scan(&n.accounts, &n.negative, &n.odd, &n.provisional)
	})
	if err == nil {
		c.sums, c.known = n, true
	}
	if c.known {
		c.again = time.Now().Add(sumsShare * time.Since(begun))
	}
	return err
}

// idAt is the least UUIDv7 of a time.
func idAt(t time.Time) uuid.UUID {
	var id uuid.UUID
	ms := uint64(max(0, t.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6], id[8] = 0x70, 0x80
	return id
}

// paidBack is, as SQL, how many misdirected payments were paid back to their senders as a whole, or
// are on their way there: they wait for nobody, and are listed as misdirected all the same. It
// begins with the refunds out of suspense: a person makes each of them, while misdirected payments
// come by themselves, and stay misdirected for ever. A payment may have been assigned before its
// refund was adopted.
var paidBack = `(SELECT count(*) FROM (
				SELECT FROM transfers t JOIN ledger_entries l ON l.id = ANY(ARRAY[t.refund_of])
				WHERE t.account_id = '` + ledger.Suspense.ID().String() + `' AND t.refund_of IS NOT NULL AND t.status NOT IN ('failed', 'refunded')
				GROUP BY l.id, l.amount, l.provider_txn_ref, l.transaction_group_id HAVING sum(coalesce(t.paid_amount, t.amount)) >= l.amount
					AND EXISTS (SELECT FROM event_keys k JOIN inbound_events e ON e.id = ANY(ARRAY[k.event_id])
						WHERE k.transaction = ANY(ARRAY[event_key(nullif(l.provider_txn_ref, ''))]) AND e.misdirected AND ` + suspenseGroup + ` = l.transaction_group_id)) b)`

func (s *State) read(ctx context.Context, tx pg.Tx, now time.Time) error {
	var provisional, goesBack, unposted, pending, stopped, processing, recall, frozen *time.Time
	// Each part is one row. LEFT JOIN ... ON true has them joined as written: the planner would try
	// all orders of ten parts that a comma joins, which took 30 to 80 ms of each call. The item of
	// a payment that its policy refunds outlives the confirmation, and then is the refund's.
	err := tx.QueryRow(ctx, `
		SELECT c.n, c.oldest, c.back, c.back_oldest, r.n, u.n, u.oldest, m.n, p.n, p.oldest, p.stopped, p.stopped_oldest, q.n, q.oldest, x.n, d.n, k.n, k.oldest, k.watched, f.n, f.oldest, z.n FROM
			(SELECT count(*) FILTER (WHERE s.status = 'provisional') AS n, min(e.processed_at) FILTER (WHERE s.status = 'provisional') AS oldest,
					count(*) FILTER (WHERE s.status = 'confirmed') AS back, min(e.processed_at) FILTER (WHERE s.status = 'confirmed') AS back_oldest
				FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id])
				CROSS JOIN LATERAL (SELECT CASE e.policy WHEN 'refund' THEN (
					SELECT l.status FROM ledger_entries l WHERE l.transaction_group_id = ANY(ARRAY[e.id]) AND l.direction = 'credit') ELSE 'provisional' END AS status OFFSET 0) s
				WHERE w.kind = 'confirm' AND e.status = 'processed' AND NOT EXISTS (SELECT FROM recalls r WHERE r.event_id = e.id AND r.status`+ledger.RecallStands+`)) c
			LEFT JOIN (SELECT count(*) AS n FROM ledger_entries WHERE status = 'needs_review' AND review_from_seq IS NOT NULL AND review_to_seq IS NULL AND direction = 'credit') r ON true
			LEFT JOIN (SELECT count(*) AS n, min(e.received_at) AS oldest FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id]) WHERE w.kind = 'ingest') u ON true
			LEFT JOIN (SELECT count(*) - `+paidBack+` AS n FROM inbound_events e WHERE e.misdirected) m ON true
			LEFT JOIN (SELECT count(*) FILTER (WHERE NOT stopped) AS n, min(since) FILTER (WHERE NOT stopped) AS oldest,
				count(*) FILTER (WHERE stopped) AS stopped, min(since) FILTER (WHERE stopped) AS stopped_oldest
				FROM (SELECT coalesce(approved_at, created_at) AS since, `+freeze.Stops("t.account_id", "t.tenant_id", "$1")+` AS stopped
					FROM transfers t WHERE waiting AND (approvals_needed = 0 OR approved_at IS NOT NULL) OFFSET 0) s) p ON true
			LEFT JOIN (SELECT count(*) AS n, min(t.submitted_at) AS oldest FROM work w JOIN transfers t ON t.id = w.id WHERE w.kind = 'settle' AND t.status = 'processing') q ON true
			LEFT JOIN (SELECT count(*) AS n FROM transfers WHERE differs_since IS NOT NULL) x ON true
			LEFT JOIN (SELECT count(*) AS n FROM deliveries WHERE dead) d ON true
			LEFT JOIN (SELECT count(*) FILTER (WHERE status = 'open') AS n, min(opened_at) FILTER (WHERE status = 'open') AS oldest,
				count(*) FILTER (WHERE status = 'watched') AS watched FROM recalls WHERE status`+ledger.RecallStands+`) k ON true
			LEFT JOIN (SELECT count(*) AS n, min(created_at) AS oldest FROM freezes WHERE lifted_at IS NULL AND coalesce(until, 'infinity') > $1) f ON true
			LEFT JOIN (SELECT count(*) AS n FROM reconcile_items i WHERE i.exception ->> 'kind' = 'unposted' AND i.dismissed_at IS NULL
				AND NOT EXISTS (SELECT FROM inbound_events e WHERE e.id = ANY(ARRAY[(i.exception ->> 'eventId')::uuid]) AND e.category <> 'processing_error')) z ON true`, now).
		Scan(&s.ProvisionalCount, &provisional, &s.GoesBackCount, &goesBack, &s.ReviewCount, &s.UnpostedCount, &unposted,
			&s.MisdirectedCount, &s.PendingCount, &pending, &s.StoppedCount, &stopped, &s.ProcessingCount, &processing, &s.DifferingCount, &s.DeadLetters, &s.RecallCount, &recall, &s.WatchedCount,
			&s.FreezeCount, &frozen, &s.RefusedCount)
	if err != nil {
		return fmt.Errorf("what is open: %w", err)
	}
	age := func(t *time.Time) time.Duration {
		if t == nil {
			return 0
		}
		return max(0, now.Sub(*t))
	}
	s.ProvisionalOldest, s.UnpostedOldest, s.PendingOldest, s.ProcessingOldest = age(provisional), age(unposted), age(pending), age(processing)
	s.StoppedOldest, s.GoesBackOldest, s.RecallOldest, s.FreezeOldest = age(stopped), age(goesBack), age(recall), age(frozen)
	return nil
}
