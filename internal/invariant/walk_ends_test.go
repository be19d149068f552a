package invariant_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// rests lets everything come to its end: the bank is honest and answers, nothing is stopped, and
// weeks pass.
func (w *walk) rests() {
	w.bank.Faults.Clear()
	for _, t := range w.bank.Transactions() {
		w.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.Hidden = false })
		if t.Status == fakebank.StatusPending && w.yes("it arrives") {
			_, err := w.bank.Arrive(t.ID)
			require.NoError(w.T, err)
		} else if t.Status == fakebank.StatusPending {
			w.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.Status = fakebank.StatusFailed })
		}
	}
	for _, p := range w.payouts() {
		w.bank.SetPayout(p.Ref, func(x *fakebank.Payout) { x.FeeUnsaid = false })
	}
	for _, id := range testenv.Value[[]uuid.UUID](w.Env, `SELECT coalesce(array_agg(id), '{}') FROM freezes WHERE lifted_at IS NULL AND coalesce(until, 'infinity') > $1`, w.Clock.Now()) {
		_, err := w.freezes.Lift(w.ctx, id, returned)
		require.NoError(w.T, err)
	}
	for _, id := range w.two {
		_, err := w.tenants.Activate(w.ctx, id, returned)
		require.NoError(w.T, err)
	}
	for n := range 56 {
		if n > 18 && testenv.Value[int](w.Env, `SELECT count(*) FROM work WHERE kind <> 'deliver'`) == 0 {
			break
		}
		w.work()
		w.reconcileDue()
		w.reconcileDay()
		if n < 10 {
			w.Clock.Advance(45 * time.Minute)
		} else {
			w.Clock.Advance(12 * time.Hour)
		}
	}
}

// ends holds the books against the bank's own when all is done.
func (w *walk) ends() {
	w.stands()
	// a payment more, whose event says what is in the wallet, and which stays there
	w.Exec(`UPDATE accounts SET policy = NULL WHERE id = $1`, w.places[0].id)
	t, err := w.bank.Pay(w.ctx, fakebank.Payment{AccountRef: w.places[0].id.String(), Amount: money.Must("5000.00"), Silent: true, Force: true})
	require.NoError(w.T, err)
	w.sends(fakebank.PaymentSuccess, t)
	w.work()
	w.Clock.Advance(time.Minute)
	w.work()
	w.float()
	w.explained()
	w.paidOnce()
	w.published()
	w.daysAddUp()
	w.nothingForgotten()
	w.depositsOfDays()
	w.policiesHold()
}

// float compares the wallet as an operator does.
func (w *walk) float() {
	w.T.Helper()
	for to := w.Clock.Now().Truncate(time.Second); to.After(testenv.Epoch.Add(-time.Hour)); to = to.Add(-30 * 24 * time.Hour) {
		r, err := w.recon.Run(w.ctx, to.Add(-30*24*time.Hour), to)
		require.NoError(w.T, err)
		if f := r.Float; !f.Comparable || f.Unexplained.Sign() != 0 {
			text, _ := json.MarshalIndent(r.Float, "", " ")
			w.r.Fatalf("the float: %s\n%s", text, w.state())
		}
	}
}

// state is what a person would look at.
func (w *walk) state() string {
	var b strings.Builder
	for what, sql := range map[string]string{
		"entries":   `SELECT id, account_id, direction, amount, status, kind, contra, provider_txn_ref, transfer_ref, created_at FROM ledger_entries ORDER BY id`,
		"transfers": `SELECT id, merchant_tx_ref, status, amount, paid_amount, attempt_count, ended_by, difference, differs_since, refund_of, by_policy, booked_fee, booked_taxes, last_error FROM transfers ORDER BY id`,
		"events":    `SELECT id, event_type, status, category, amount, fee, provider_txn_ref, occurred_at, error_message, last_error FROM inbound_events ORDER BY id`,
		"recalls":   `SELECT event_id, status, source, held, opened_at, closed_at FROM recalls`,
		"items":     `SELECT kind, ref, effect, exception ->> 'kind', exception ->> 'detail', dismissed_at FROM reconcile_items`,
		"work":      `SELECT kind, id, due_at FROM work WHERE kind <> 'deliver'`,
		"holds":     `SELECT id, account_id, source, amount, status, reason, entry_id FROM holds`,
	} {
		rows, err := pg.Collect(w.ctx, w.Pool, func(row pgx.CollectableRow) (string, error) {
			v, err := row.Values()
			var line []string
			for _, x := range v {
				if id, ok := x.([16]byte); ok {
					x = uuid.UUID(id)
				}
				if t, ok := x.(time.Time); ok {
					x = t.UTC().Format("01-02T15:04:05")
				}
				line = append(line, fmt.Sprint(x))
			}
			return strings.Join(line, " | "), err
		}, sql)
		fmt.Fprintf(&b, "%s (%v):\n%s\n", what, err, strings.Join(rows, "\n"))
	}
	for _, t := range w.bank.Transactions() {
		fmt.Fprintf(&b, "bank: %s %s %s fee %s to %s at %s, listed as %s\n", t.ID, t.Status, t.Amount, t.Fee, t.AccountRef, t.Time.Format("01-02T15:04:05"), t.ListedAs)
	}
	for _, p := range w.payouts() {
		fmt.Fprintf(&b, "bank: %s %s %s back %v kept %v unsaid %v next %s at %v\n", p.Ref, p.Status, p.Amount, p.Back, p.FeeKept, p.FeeUnsaid, p.NextStatus, p.NextAt)
	}
	fmt.Fprintf(&b, "now: %s\n", w.Clock.Now().Format("01-02T15:04:05"))
	return b.String()
}

// explained compares each payment and each payout with the books: an operator is shown what
// the wallet has more or less.
func (w *walk) explained() {
	const net = `sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END)`
	came := testenv.Map[string, money.Amount](w.Env, `SELECT lower(provider_txn_ref), `+net+` FROM ledger_entries
		WHERE provider_txn_ref <> '' AND transfer_ref IS NULL AND status IN ('provisional', 'confirmed') AND kind IN ('', 'suspense') GROUP BY 1`)
	went := testenv.Map[string, money.Amount](w.Env, `SELECT transfer_ref, `+net+` FROM ledger_entries
		WHERE transfer_ref IS NOT NULL AND status IN ('provisional', 'confirmed') AND (kind IN ('', 'suspense') OR kind = 'fee' AND account_id = tenant_id) GROUP BY 1`)
	pending := testenv.Map[string, money.Amount](w.Env, `SELECT merchant_tx_ref, amount FROM transfers WHERE status = 'pending'`)
	known := testenv.Map[string, money.Amount](w.Env, `SELECT lower(ref), sum(effect) FROM (
		SELECT provider_txn_ref AS ref, amount AS effect FROM ledger_entries WHERE status = 'needs_review' AND direction = 'credit' AND kind = ''
		UNION ALL SELECT provider_txn_ref, amount - fee FROM inbound_events WHERE unposted AND NOT misdirected AND event_type = 'payment_success' AND look_alike_of IS NULL
		UNION ALL SELECT split_part(ref, ' ', 1), effect FROM reconcile_items) k GROUP BY 1`)
	says := func(ref string, bank, books money.Amount) {
		if differs := bank.Sub(books); !differs.Equal(known[strings.ToLower(ref)]) {
			w.r.Fatalf("%s: the bank has %s of it and the books %s; %s is known\n%s", ref, bank, books, known[strings.ToLower(ref)], w.state())
		}
	}
	for _, t := range w.bank.Transactions() {
		says(t.ID, received(t), came[strings.ToLower(t.ID)])
		delete(came, strings.ToLower(t.ID))
	}
	if len(came) > 0 {
		w.r.Fatalf("no payments of the bank: %v\n%s", came, w.state())
	}
	for _, p := range w.payouts() {
		says(p.Ref, left(p).Neg(), went[p.Ref])
		delete(went, p.Ref)
	}
	for ref, sum := range went {
		if p, waits := pending[ref]; !waits || !p.Equal(sum.Neg()) {
			says(ref, money.Zero, sum)
		}
	}
}

// paidOnce: no settlement and no refund has left twice, but for what was booked by hand or the bank
// contradicted.
func (w *walk) paidOnce() {
	seen := map[string]string{}
	refunds := map[string]money.Amount{}
	for _, p := range w.payouts() {
		if before := seen[p.AccountNumber]; before != "" && strings.HasPrefix(p.AccountNumber, "7") {
			w.r.Fatalf("%s and %s went to %s\n%s", before, p.Ref, p.AccountNumber, w.state())
		}
		seen[p.AccountNumber] = p.Ref
		if left(p).Cmp(p.Amount) < 0 {
			continue
		}
		of := testenv.Value[string](w.Env, `SELECT coalesce((SELECT e.provider_txn_ref FROM transfers t JOIN ledger_entries e ON e.id = t.refund_of WHERE t.merchant_tx_ref = $1), '')`, p.Ref)
		if of != "" {
			refunds[of] = refunds[of].Add(p.Amount)
		}
	}
	for ref, sum := range refunds {
		net := testenv.Value[money.Amount](w.Env, `SELECT max(amount) FROM ledger_entries WHERE provider_txn_ref = $1 AND direction = 'credit' AND reversal_of IS NULL`, ref)
		if sum.Cmp(net) > 0 && !testenv.Value[bool](w.Env, `SELECT bool_or(t.ended_by = 'operator' OR t.adopted OR t.difference <> '')
			FROM transfers t JOIN ledger_entries e ON e.id = t.refund_of WHERE e.provider_txn_ref = $1`, ref) {
			w.r.Fatalf("%s of %s went back\n%s", sum, ref, w.state())
		}
	}
}

// published: the last event of a payment or a transfer has its status.
func (w *walk) published() {
	last := map[string]string{}
	for _, d := range w.Delivered(`true`) {
		var body struct{ MerchantTxRef, TransactionGroupID string }
		require.NoError(w.T, json.Unmarshal([]byte(d.Body), &body))
		last[cmp.Or(body.MerchantTxRef, body.TransactionGroupID)] = d.EventType
	}
	is := map[string]string{}
	for ref, status := range testenv.Map[string, string](w.Env, `
		SELECT transaction_group_id::text, status FROM ledger_entries WHERE direction = 'credit' AND reversal_of IS NULL AND kind = '' AND status <> 'needs_review'
		UNION ALL SELECT merchant_tx_ref, status FROM transfers WHERE status NOT IN ('pending', 'processing') AND tenant_id <> account_id`) {
		is[ref] = map[string]string{
			"provisional": "payment.received", "confirmed": "payment.confirmed", "reversed": "payment.reversed",
			"success": "settlement.succeeded", "failed": "settlement.failed", "refunded": "settlement.refunded",
		}[status]
	}
	for _, ref := range slices.Sorted(maps.Keys(is)) {
		if last[ref] != is[ref] {
			w.r.Fatalf("the last event of %s is %q and not %q\n%s", ref, last[ref], is[ref], w.state())
		}
	}
}

// daysAddUp: each day's lines lead from what it began with to what it ended with, with which the
// next one begins. Reviews change balances without a line.
func (w *walk) daysAddUp() {
	now := w.Clock.Now()
	for _, a := range w.places[:len(w.places)-1] {
		if testenv.Value[bool](w.Env, `SELECT EXISTS (SELECT FROM ledger_entries WHERE account_id = $1 AND review_from_seq IS NOT NULL)`, a.id) {
			continue
		}
		ended := money.Zero
		for _, day := range testenv.Value[[]string](w.Env, `SELECT coalesce(array_agg(DISTINCT (created_at AT TIME ZONE 'Africa/Lagos')::date::text), '{}') FROM ledger_entries WHERE account_id = $1`, a.id) {
			from, err := clock.ParseDay(day)
			require.NoError(w.T, err)
			f := ledger.Filter{From: from, To: from.AddDate(0, 0, 1)}
			begin, err := ledger.BalanceAt(w.ctx, w.Pool, a.id, f.From)
			require.NoError(w.T, err)
			require.Equal(w.T, ended.String(), begin.String(), "%s begins %s", a.ref, day)
			sum := begin
			var lines []ledger.Line
			for l, err := range ledger.Lines(w.ctx, w.Pool, a.id, f, 1000) {
				require.NoError(w.T, err)
				if lines = append(lines, l); l.Entry.Direction == ledger.Credit {
					sum = sum.Add(l.Entry.Amount)
				} else {
					sum = sum.Sub(l.Entry.Amount)
				}
			}
			ended, err = f.Closing(w.ctx, w.Pool, a.id, begin, lines, now)
			require.NoError(w.T, err)
			require.Equal(w.T, sum.String(), ended.String(), "%s ends %s", a.ref, day)
		}
		b, err := ledger.ReadBalance(w.ctx, w.Pool, a.id)
		require.NoError(w.T, err)
		require.Equal(w.T, b.Balance.String(), ended.String(), "%s", a.ref)
	}
}

// nothingForgotten: what has not ended waits for somebody whom a list tells of it.
func (w *walk) nothingForgotten() {
	for what, sql := range map[string]string{
		"provisional payments": `SELECT id::text FROM ledger_entries WHERE status = 'provisional' AND direction = 'credit' AND kind = '' AND created_at < $1`,
		"unposted events":      `SELECT id::text FROM inbound_events WHERE status = 'received' AND received_at < $1`,
		// it awaits money or approval, or the bank's record contradicts it
		"transfers": `SELECT merchant_tx_ref FROM transfers t WHERE updated_at < $1 AND status = 'processing' AND differs_since IS NULL`,
		// its payment is under review, or its record differs: a person decides
		"recalls": `SELECT r.event_id::text FROM recalls r JOIN ledger_entries e ON e.transaction_group_id = r.event_id AND e.direction = 'credit' AND e.reversal_of IS NULL
			JOIN inbound_events i ON i.id = r.event_id
			WHERE r.opened_at < $1 AND (r.status = 'watched' OR r.status = 'open' AND e.status <> 'needs_review' AND i.last_error NOT LIKE '%its record differs%')`,
		"work": `SELECT kind || ' ' || id FROM work w WHERE kind IN ('ingest', 'expire') OR kind = 'confirm' AND id NOT IN (SELECT event_id FROM recalls WHERE status = 'open')`,
	} {
		args := []any{w.Clock.Now().Add(-15 * 24 * time.Hour)}
		if what == "work" {
			args = nil
		}
		found, err := pg.Collect(w.ctx, w.Pool, pgx.RowTo[string], sql, args...)
		require.NoError(w.T, err)
		if len(found) > 0 {
			w.r.Fatalf("%s are forgotten: %v\n%s", what, found, w.state())
		}
	}
}

// depositsOfDays: what the day's limit counts is no more than what came and stayed, and no limit
// holds.
func (w *walk) depositsOfDays() {
	stayed := testenv.Map[string, money.Amount](w.Env, `SELECT e.account_id || ' ' || (e.created_at AT TIME ZONE 'Africa/Lagos')::date, sum(e.amount) - coalesce(sum(h.amount), 0)
		FROM ledger_entries e LEFT JOIN holds h ON h.entry_id = e.id AND h.status = 'open' AND h.source = 'limit'
		WHERE e.direction = 'credit' AND e.kind = '' AND e.status IN ('provisional', 'confirmed') GROUP BY 1`)
	for day, counted := range testenv.Map[string, money.Amount](w.Env, `SELECT account_id || ' ' || day, allowed FROM deposit_days`) {
		if counted.Cmp(stayed[day]) > 0 {
			w.r.Fatalf("%s: %s count for the limit, and %s stayed\n%s", day, counted, stayed[day], w.state())
		}
	}
}

// policiesHold: what an account's policy pays back has gone back, or is held, unless its tenant or
// an operator has released it.
func (w *walk) policiesHold() {
	free := testenv.Value[[]string](w.Env, `
		SELECT coalesce(array_agg(i.id::text), '{}') FROM inbound_events i JOIN ledger_entries e ON e.transaction_group_id = i.id AND e.direction = 'credit' AND e.reversal_of IS NULL
		JOIN LATERAL (SELECT status, source, left_with FROM holds h WHERE h.entry_id = e.id ORDER BY h.id DESC LIMIT 1) h ON true
		WHERE i.policy = 'refund' AND e.status = 'confirmed' AND (h.status <> 'open' AND h.left_with OR h.status = 'open' AND h.source = 'refund')
			AND NOT EXISTS (SELECT FROM transfers t WHERE t.refund_of = ANY(payment_entries(e)) AND t.status NOT IN ('failed', 'refunded'))`)
	if len(free) > 0 {
		w.r.Fatalf("neither back nor held: %v\n%s", free, w.state())
	}
}
