package ledger

// checks recompute everything from the entries alone. Each query returns (subject, detail) of the
// rows that are wrong.
var checks = []struct{ name, sql string }{
	{CheckTotals, `
		WITH s AS (
			SELECT account_id,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit' AND status <> 'needs_review'), 0) AS credits,
				coalesce(sum(amount) FILTER (WHERE direction = 'debit' AND status <> 'needs_review'), 0) AS debits,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit' AND status = 'provisional'), 0) AS provisional,
				coalesce(sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END) FILTER (WHERE status IN ('provisional', 'confirmed')), 0) AS balance,
				max(seq) AS last_seq, count(*) AS entries
			FROM ledger_entries GROUP BY account_id)
		SELECT coalesce(b.account_id, s.account_id)::text, format('stored %s/%s/%s/%s/%s, entries say %s/%s/%s/%s/%s (credits/debits/balance/provisional/seq)',
			b.total_credits, b.total_debits, b.balance, b.provisional_credits, b.last_seq,
			coalesce(s.credits, 0), coalesce(s.debits, 0), coalesce(s.balance, 0), coalesce(s.provisional, 0), coalesce(s.last_seq, 0))
		FROM ledger_balances b FULL JOIN s USING (account_id)
		WHERE (b.total_credits, b.total_debits, b.balance, b.provisional_credits, b.last_seq, b.last_seq)
			IS DISTINCT FROM (coalesce(s.credits, 0), coalesce(s.debits, 0), coalesce(s.balance, 0), coalesce(s.provisional, 0),
				coalesce(s.last_seq, 0), coalesce(s.entries, 0))`},
	{CheckSequence, `
		SELECT id::text, format('number %s follows %s', seq, before)
		FROM (SELECT id, seq, lag(seq, 1, 0::bigint) OVER (PARTITION BY account_id ORDER BY seq) AS before FROM ledger_entries) e
		WHERE seq <> before + 1`},
	// An entry's running balance is the one before it, plus the entry, minus what went under review
	// in between, plus what came back. A gap in the numbers is another check's finding.
	{CheckRunning, `
		WITH moved AS (
			SELECT account_id, seq, sum(delta) AS delta FROM (
				SELECT account_id, review_from_seq AS seq, CASE direction WHEN 'credit' THEN -amount ELSE amount END AS delta FROM ledger_entries WHERE review_from_seq IS NOT NULL
				UNION ALL
				SELECT account_id, review_to_seq, CASE direction WHEN 'credit' THEN amount ELSE -amount END FROM ledger_entries WHERE review_to_seq IS NOT NULL) x
			GROUP BY account_id, seq),
		e AS (
			SELECT id, account_id, seq, running_balance, CASE direction WHEN 'credit' THEN amount ELSE -amount END AS delta,
				lag(seq) OVER w AS before, coalesce(lag(running_balance) OVER w, 0) AS running_before
			FROM ledger_entries WINDOW w AS (PARTITION BY account_id ORDER BY seq))
		SELECT e.id::text, format('running balance %s, %s after number %s', e.running_balance, e.running_before + e.delta + coalesce(m.delta, 0), coalesce(e.before, 0))
		FROM e LEFT JOIN moved m ON m.account_id = e.account_id AND m.seq = e.seq - 1
		WHERE (e.seq = 1 OR e.before = e.seq - 1) AND e.running_balance <> e.running_before + e.delta + coalesce(m.delta, 0)`},
	{CheckReviews, `
		SELECT e.id::text, format('%s, under review from number %s to %s', e.status, coalesce(e.review_from_seq::text, 'none'), coalesce(e.review_to_seq::text, 'none'))
		FROM ledger_entries e JOIN ledger_balances b USING (account_id)
		WHERE (e.status = 'needs_review') <> (e.review_from_seq IS NOT NULL AND e.review_to_seq IS NULL)
			OR (e.review_to_seq IS NOT NULL AND (e.review_from_seq IS NULL OR e.status = 'provisional'))
			OR e.review_from_seq < e.seq OR e.review_to_seq < e.review_from_seq OR e.review_to_seq > b.last_seq`},
	{CheckReversed, `
		SELECT e.id::text, 'reversed, but has no reversal entry'
		FROM ledger_entries e LEFT JOIN ledger_entries r ON r.reversal_of = e.id
		WHERE e.status = 'reversed' AND e.reversal_of IS NULL AND r.id IS NULL`},
	{CheckMirrors, `
		SELECT r.id::text, format('reverses %s, but differs from it', o.id)
		FROM ledger_entries r JOIN ledger_entries o ON o.id = r.reversal_of
		WHERE o.status <> 'reversed' OR r.status <> 'reversed' OR o.amount <> r.amount OR o.direction = r.direction
			OR o.account_id <> r.account_id OR o.transaction_group_id <> r.transaction_group_id OR o.reversal_of IS NOT NULL`},
	{CheckOwner, `
		SELECT e.id::text, format('tenant %s, its account has %s', e.tenant_id, b.tenant_id)
		FROM ledger_entries e JOIN ledger_balances b USING (account_id) WHERE e.tenant_id <> b.tenant_id`},
	{CheckDays, `
		WITH kept AS (SELECT tenant_id, day, sum(money_in) AS money_in, sum(money_out) AS money_out FROM ledger_days GROUP BY 1, 2),
		said AS (
			SELECT tenant_id, (created_at AT TIME ZONE interval '1 hour')::date AS day,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit'), 0) AS money_in, coalesce(sum(amount) FILTER (WHERE direction = 'debit'), 0) AS money_out
			FROM ledger_entries WHERE status IN ('provisional', 'confirmed') GROUP BY 1, 2)
		SELECT format('%s %s', tenant_id, day), format('stored %s/%s, entries say %s/%s (in/out)', k.money_in, k.money_out, s.money_in, s.money_out)
		FROM kept k FULL JOIN said s USING (tenant_id, day)
		WHERE (coalesce(k.money_in, 0), coalesce(k.money_out, 0)) IS DISTINCT FROM (coalesce(s.money_in, 0), coalesce(s.money_out, 0))`},
}
