package ledger

import "ajo/internal/pg"

// Checks that reading the entries one by one does not cover. Each query returns (subject, detail)
// of the rows that are wrong.

// reviewsSQL reads all entries that have ever been under review, by their index; there are few.
const reviewsSQL = `
		SELECT e.id::text, format('%s, under review from number %s to %s', e.status, coalesce(e.review_from_seq::text, 'none'), coalesce(e.review_to_seq::text, 'none'))
		FROM ledger_entries e JOIN ledger_balances b USING (account_id)
		WHERE (e.review_from_seq IS NOT NULL OR e.review_to_seq IS NOT NULL)
			AND ((e.status = 'needs_review') <> (e.review_from_seq IS NOT NULL AND e.review_to_seq IS NULL)
			OR (e.review_to_seq IS NOT NULL AND (e.review_from_seq IS NULL OR e.status = 'provisional'))
			OR e.review_from_seq < e.seq OR e.review_to_seq < e.review_from_seq OR e.review_to_seq > b.last_seq)`

// pairs are the checks of reversed entries: those that $1 names, or all if it is NULL.
var pairs = []struct{ name, sql string }{
	{CheckReversed, `
		SELECT e.id::text, 'reversed, but has no reversal entry'
		FROM ledger_entries e LEFT JOIN ledger_entries r ON r.reversal_of = e.id
		WHERE e.reversed AND e.reversal_of IS NULL AND r.id IS NULL AND ($1::uuid[] IS NULL OR e.id = ANY($1))`},
	{CheckMirrors, `
		SELECT r.id::text, format('reverses %s, but differs from it', o.id)
		FROM ledger_entries r JOIN ledger_entries o ON o.id = r.reversal_of
		WHERE (o.status <> 'reversed' OR r.status <> 'reversed' OR o.amount <> r.amount OR o.direction = r.direction
			OR o.account_id <> r.account_id OR o.contra <> r.contra OR o.kind <> r.kind OR o.transaction_group_id <> r.transaction_group_id OR o.reversal_of IS NOT NULL)
			AND ($1::uuid[] IS NULL OR r.id = ANY($1))`},
}

// allDaysSQL compares each day: it reads all entries.
const allDaysSQL = `
		WITH kept AS (SELECT tenant_id, day, sum(money_in) AS money_in, sum(money_out) AS money_out FROM ledger_days GROUP BY 1, 2),
		said AS (
			SELECT tenant_id, (created_at AT TIME ZONE interval '1 hour')::date AS day,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit'), 0) AS money_in, coalesce(sum(amount) FILTER (WHERE direction = 'debit'), 0) AS money_out
			FROM (SELECT tenant_id, direction, amount, status, created_at FROM ledger_entries UNION ALL ` + contraSidesSQL + `) e
			WHERE status IN ('provisional', 'confirmed') GROUP BY 1, 2)
		SELECT format('%s %s', tenant_id, day), format('stored %s/%s, entries say %s/%s (in/out)', k.money_in, k.money_out, s.money_in, s.money_out)
		FROM kept k FULL JOIN said s USING (tenant_id, day)
		WHERE (coalesce(k.money_in, 0), coalesce(k.money_out, 0)) IS DISTINCT FROM (coalesce(s.money_in, 0), coalesce(s.money_out, 0))`

// contraSidesSQL selects the contra sides of entries, except the provider float's.
const contraSidesSQL = `
			SELECT s.id AS tenant_id, CASE e.direction WHEN 'credit' THEN 'debit' ELSE 'credit' END AS direction, e.amount, e.status, e.created_at
			FROM ledger_entries e JOIN system_accounts s ON s.name = e.contra WHERE e.contra <> 'provider_float'`

// tenantDaysSQL compares the sums of all days of each tenant with what its accounts have.
var tenantDaysSQL = `
		SELECT tenant_id::text, format('stored %s/%s in all, entries say %s/%s (in/out)', k.money_in, k.money_out, s.money_in, s.money_out)
		FROM (SELECT tenant_id, sum(money_in) AS money_in, sum(money_out) AS money_out FROM ledger_days GROUP BY 1) k
		FULL JOIN (
			SELECT tenant_id, sum(money_in) AS money_in, sum(money_out) AS money_out FROM (
				SELECT tenant_id, money_in, money_out FROM ` + pg.Unnest[tenantSum](1, "s") + `
				UNION ALL
				SELECT tenant_id, CASE direction WHEN 'credit' THEN amount ELSE 0 END, CASE direction WHEN 'debit' THEN amount ELSE 0 END
				FROM (` + contraSidesSQL + `) c WHERE status IN ('provisional', 'confirmed')) a GROUP BY 1) s USING (tenant_id)
		WHERE (coalesce(k.money_in, 0), coalesce(k.money_out, 0)) IS DISTINCT FROM (coalesce(s.money_in, 0), coalesce(s.money_out, 0))`

// strayedSQL finds accounts of entries and checkpoints that have no balance. It goes from account
// to account in the index of the entries.
const strayedSQL = `
		WITH RECURSIVE a AS (
			(SELECT account_id FROM ledger_entries ORDER BY account_id LIMIT 1)
			UNION ALL
			SELECT (SELECT e.account_id FROM ledger_entries e WHERE e.account_id > a.account_id ORDER BY e.account_id LIMIT 1) FROM a WHERE a.account_id IS NOT NULL)
		SELECT account_id::text, 'it has entries, or a checkpoint, and no balance'
		FROM (SELECT account_id FROM a UNION SELECT account_id FROM ledger_checkpoints) x
		WHERE account_id IS NOT NULL AND NOT EXISTS (SELECT FROM ledger_balances b WHERE b.account_id = x.account_id)`
