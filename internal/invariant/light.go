package invariant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/freeze"
	"ajo/internal/pg"
	"ajo/ledger"
)

const (
	// recentFor is how far back the light check looks: more than the time between two of them.
	recentFor = 5 * time.Minute
	// recentRows bounds what it reads of each kind, the newest first.
	recentRows = 10_000
	// partTimeout bounds each of its statements.
	partTimeout = 10 * time.Second
	// DeadLettersMost is up to how many dead letters are counted: they become more for ever.
	DeadLettersMost = 100_000
	// NotRead is the count of what could never be read.
	NotRead = -1
)

// Missed is a part of the light check that failed, by the name that the runbook has.
type Missed struct {
	Part string
	Err  error
}

// State is what the light check saw: what is open, how old the oldest of it is, and what does not
// hold. The figures of a part that it missed are those of the last time, or [NotRead].
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
	DeadLetters    int64 // above [DeadLettersMost]: more than that
	Findings       []ledger.Finding
	Missed         []Missed
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

// Checker repeats the light check. It is not safe for concurrent use.
type Checker struct {
	state State
	known map[string]bool // the parts that were read
	again time.Time       // when the sums are read again
}

// balances is the part with the sums of all balances.
const balances = "balances"

// Light is [Checker.Light], once.
func Light(ctx context.Context, pool *pg.Pool, now time.Time) (State, error) {
	return new(Checker).Light(ctx, pool, now)
}

// Light reads what was posted in the last five minutes, and what is open, as of one moment. Its
// cost goes with the number of open rows, and with at most 10,000 recent rows of a kind; not with
// the history. The sums of the balances may be older, the more accounts there are. Each part is a
// statement of its own: one that fails keeps its figures and is named, and the others are read. An
// error says that nothing was.
func (c *Checker) Light(ctx context.Context, pool *pg.Pool, now time.Time) (State, error) {
	if c.known == nil {
		c.known = map[string]bool{}
	}
	s := &c.state
	s.Missed = nil
	c.readSums(ctx, pool)
	missed, found, ran := s.Missed, s.Findings, false
	err := pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		s.Findings, s.Missed = nil, slices.Clone(missed)
		if s.OddBalances > 0 {
			s.Findings = append(s.Findings, ledger.Finding{Check: ledger.CheckTotals, Subject: "balances", Detail: fmt.Sprintf("%d have sums that cannot be", s.OddBalances)})
		}
		if err := pg.SetTimeout(ctx, tx, partTimeout); err != nil {
			return err
		}
		since := idAt(now.Add(-recentFor))
		for _, r := range recent {
			if !c.read(ctx, tx, part{name: r.name}, func(q pg.Querier) error {
				wrong, err := ledger.Query(ctx, q, r.name, r.sql, since, recentRows)
				s.Findings = append(s.Findings, wrong...)
				return err
			}) {
				s.Findings = append(s.Findings, slices.DeleteFunc(slices.Clone(found), func(f ledger.Finding) bool { return f.Check != r.name })...)
			}
		}
		for _, p := range open {
			c.read(ctx, tx, p, func(q pg.Querier) error {
				var args []any
				if strings.Contains(p.sql, "$1") {
					args = append(args, now)
				}
				return q.QueryRow(ctx, p.sql, args...).Scan(p.into(s)...)
			})
		}
		ran = true
		return nil
	})
	if !ran {
		return State{}, err
	}
	return *s, nil // what was read stands, also if the connection has not outlived the last part
}

// read runs the statement of a part, and reports whether it succeeded. Its failure leaves the
// transaction to the others.
func (c *Checker) read(ctx context.Context, tx pg.Tx, p part, do func(pg.Querier) error) bool {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return do(tx) })
	c.note(p, err)
	return err == nil
}

// note notes whether a part was read.
func (c *Checker) note(p part, err error) {
	if err == nil {
		c.known[p.name] = true
		return
	}
	c.state.Missed = append(c.state.Missed, Missed{p.name, err})
	if p.into == nil || c.known[p.name] {
		return
	}
	for _, figure := range p.into(&c.state) {
		if n, ok := figure.(*int64); ok {
			*n = NotRead
		}
	}
}

// The sums of the balances are read for at most a hundredth of the time, and one reading of them
// takes at most a minute: it costs as much as there are accounts.
const (
	sumsShare   = 100
	sumsTimeout = time.Minute
)

// sums is a part that [Checker.readSums] reads.
var sums = part{
	balances, `
	SELECT count(*), count(*) FILTER (WHERE balance < 0),
		count(*) FILTER (WHERE provisional_credits > total_credits OR (last_seq = 0 AND (total_credits, total_debits) <> (0, 0))), trunc(coalesce(sum(provisional_credits), 0))::bigint
	FROM ledger_balances WHERE tenant_id <> account_id`,
	func(s *State) []any {
		return []any{&s.Accounts, &s.NegativeBalances, &s.OddBalances, &s.ProvisionalNaira}
	},
}

// readSums reads the sums of the balances, if it is time. Of a failure after the first time it says
// so once: until it is time again, the last ones count.
func (c *Checker) readSums(ctx context.Context, pool *pg.Pool) {
	begun := time.Now()
	if begun.Before(c.again) {
		return
	}
	c.note(sums, pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if err := pg.SetTimeout(ctx, tx, sumsTimeout); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sums.sql).Scan(sums.into(&c.state)...)
	}))
	if c.known[balances] {
		c.again = time.Now().Add(sumsShare * time.Since(begun))
	}
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

// part is what one statement of the light check reads about open rows.
type part struct {
	name string
	sql  string               // $1, if there is one: the time now
	into func(s *State) []any // its columns: counts, and how long the oldest has waited
}

// age is, as SQL, how long ago a time was; 0 of NULL.
func age(since string) string { return `greatest($1::timestamptz - ` + since + `, '0')` }

// open are the parts about open rows. Dead letters become more for ever, so they are counted up to
// a bound. So do misdirected payments, but those that were paid back are taken off their whole
// number.
var open = []part{
	// The item of a payment that its policy refunds outlives the confirmation, and then is the
	// refund's.
	{
		"unconfirmed payments", `
		SELECT count(*) FILTER (WHERE s.status = 'provisional'), ` + age(`min(e.processed_at) FILTER (WHERE s.status = 'provisional')`) + `,
			count(*) FILTER (WHERE s.status = 'confirmed'), ` + age(`min(e.processed_at) FILTER (WHERE s.status = 'confirmed')`) + `
		FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id])
		CROSS JOIN LATERAL (SELECT CASE e.policy WHEN 'refund' THEN (
			SELECT l.status FROM ledger_entries l WHERE l.transaction_group_id = ANY(ARRAY[e.id]) AND l.direction = 'credit') ELSE 'provisional' END AS status OFFSET 0) s
		WHERE w.kind = 'confirm' AND e.status = 'processed' AND NOT EXISTS (SELECT FROM recalls r WHERE r.event_id = e.id AND r.status` + ledger.RecallStands + `)`,
		func(s *State) []any {
			return []any{&s.ProvisionalCount, &s.ProvisionalOldest, &s.GoesBackCount, &s.GoesBackOldest}
		},
	},
	{
		"reviews", `
		SELECT count(*) FROM ledger_entries WHERE status = 'needs_review' AND review_from_seq IS NOT NULL AND review_to_seq IS NULL AND direction = 'credit'`,
		func(s *State) []any { return []any{&s.ReviewCount} },
	},
	{
		"unposted events", `
		SELECT count(*), ` + age(`min(e.received_at)`) + ` FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id]) WHERE w.kind = 'ingest'`,
		func(s *State) []any { return []any{&s.UnpostedCount, &s.UnpostedOldest} },
	},
	{
		"misdirected payments", `
		SELECT count(*) - ` + paidBack + ` FROM inbound_events e WHERE e.misdirected`,
		func(s *State) []any { return []any{&s.MisdirectedCount} },
	},
	{
		"payouts to be submitted", `
		SELECT count(*) FILTER (WHERE NOT stopped), ` + age(`min(since) FILTER (WHERE NOT stopped)`) + `,
			count(*) FILTER (WHERE stopped), ` + age(`min(since) FILTER (WHERE stopped)`) + `
		FROM (SELECT coalesce(approved_at, created_at) AS since, ` + freeze.Stops("t.account_id", "t.tenant_id", "$1") + ` AS stopped
			FROM transfers t WHERE waiting AND (approvals_needed = 0 OR approved_at IS NOT NULL) OFFSET 0) s`,
		func(s *State) []any {
			return []any{&s.PendingCount, &s.PendingOldest, &s.StoppedCount, &s.StoppedOldest}
		},
	},
	{
		"payouts without an outcome", `
		SELECT count(*), ` + age(`min(t.submitted_at)`) + ` FROM work w JOIN transfers t ON t.id = w.id WHERE w.kind = 'settle' AND t.status = 'processing'`,
		func(s *State) []any { return []any{&s.ProcessingCount, &s.ProcessingOldest} },
	},
	{
		"payouts that the bank contradicts", `
		SELECT count(*) FROM transfers WHERE differs_since IS NOT NULL`,
		func(s *State) []any { return []any{&s.DifferingCount} },
	},
	{
		"dead letters", fmt.Sprintf(`
		SELECT count(*) FROM (SELECT FROM deliveries WHERE dead LIMIT %d) d`, DeadLettersMost+1),
		func(s *State) []any { return []any{&s.DeadLetters} },
	},
	{
		"recalls", `
		SELECT count(*) FILTER (WHERE status = 'open'), ` + age(`min(opened_at) FILTER (WHERE status = 'open')`) + `, count(*) FILTER (WHERE status = 'watched')
		FROM recalls WHERE status` + ledger.RecallStands,
		func(s *State) []any { return []any{&s.RecallCount, &s.RecallOldest, &s.WatchedCount} },
	},
	{
		"freezes", `
		SELECT count(*), ` + age(`min(created_at)`) + ` FROM freezes WHERE lifted_at IS NULL AND coalesce(until, 'infinity') > $1`,
		func(s *State) []any { return []any{&s.FreezeCount, &s.FreezeOldest} },
	},
	{
		"payments that cannot be posted", `
		SELECT count(*) FROM reconcile_items i WHERE i.exception ->> 'kind' = 'unposted' AND i.dismissed_at IS NULL
			AND NOT EXISTS (SELECT FROM inbound_events e WHERE e.id = ANY(ARRAY[(i.exception ->> 'eventId')::uuid]) AND e.category <> 'processing_error')`,
		func(s *State) []any { return []any{&s.RefusedCount} },
	},
}
