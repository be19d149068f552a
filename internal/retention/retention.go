// Package retention says how long the rows of each table are kept, and removes those that are
// older. A test fails for a table without a rule.
package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ajo/internal/pg"
)

// Rule is how long the rows of a table are kept.
type Rule struct {
	Table string
	// Kept is why or until when, in words.
	Kept string
	// Age is the column by which a row is old; empty: nothing of the table is removed by age alone.
	Age   string
	After time.Duration
	// Only is another condition that a row must meet to be removed; empty: none.
	Only string
}

// Keep is what operators choose.
type Keep struct {
	Reports time.Duration
	Audit   time.Duration // zero: for ever
}

const day = 24 * time.Hour

// Rules are the rules of all tables.
func Rules(k Keep) []Rule {
	audit := Rule{Table: "audit_log", Kept: "for ever"}
	if k.Audit > 0 {
		audit = Rule{Table: "audit_log", Kept: "AJO_KEEP_AUDIT", Age: "at", After: k.Audit}
	}
	return []Rule{
		{Table: "goose_db_version", Kept: "for ever: the migrations that were applied"},
		{Table: "backfills", Kept: "for ever: one row a backfill"},
		{Table: "tenants", Kept: "for ever: the books name them"},
		{Table: "customers", Kept: "for ever: the books name them"},
		{Table: "accounts", Kept: "for ever: the books name them; one that was never provisioned is removed by ajo accounts close"},
		{Table: "account_history", Kept: "for ever"},
		{Table: "hash_keys", Kept: "for ever: stored hashes are made with them"},
		{Table: "system_accounts", Kept: "for ever: fixed"},
		{Table: "ledger_entries", Kept: "for ever"},
		{Table: "ledger_balances", Kept: "for ever"},
		{Table: "holds", Kept: "for ever: they say why money stayed"},
		{Table: "split_parts", Kept: "for ever: they say where a payment went"},
		{Table: "ledger_days", Kept: "for ever"},
		{Table: "ledger_checkpoints", Kept: "for ever: one row an account"},
		{Table: "inbound_events", Kept: "for ever; forged ones for 30 days, and no more than fit (payment.Service.PurgeForged)"},
		{Table: "event_bodies", Kept: "AJO_KEEP_EVENTS, then in the archive (package archive); a forged event's as long as the event"},
		{Table: "event_keys", Kept: "for ever: by them no event is stored a second time"},
		{Table: "listed_payments", Kept: "for ever: they are few"},
		{Table: "recalls", Kept: "for ever"},
		{Table: "transfers", Kept: "for ever"},
		{Table: "transfer_approvals", Kept: "for ever"},
		{Table: "beneficiaries", Kept: "for ever: the audit log names them"},
		{Table: "tier_limits", Kept: "for ever: they say why money was held"},
		{Table: "prices", Kept: "for ever: they say what a fee was made of"},
		{Table: "deposit_days", Kept: "for ever: a row a day for an account that was paid, of a tenant with limits of tiers"},
		{Table: "wallets", Kept: "for ever: they say whose money the books are of"},
		{Table: "payout_limits", Kept: "for ever: they say why a settlement was refused"},
		{Table: "payout_days", Kept: "for ever: a row a day for a tenant with limits, and for each of its accounts that paid"},
		{Table: "payout_turns", Kept: "for an hour", Age: "since", After: time.Hour},
		{Table: "freezes", Kept: "for ever: they say why a payout waited"},
		{Table: "webhook_endpoints", Kept: "for ever: deliveries name them; a removed one has no secret"},
		{Table: "deliveries", Kept: "AJO_KEEP_DELIVERIES, then in the archive"},
		{Table: "delivery_attempts", Kept: "as deliveries, with the answers' bodies"},
		{Table: "archives", Kept: "for ever: one row a partition"},
		{Table: "work", Kept: "until it is done"},
		{Table: "confirm_lists", Kept: "for a day", Age: "second", After: day},
		{Table: "reconcile_items", Kept: "until bank and books agree"},
		{Table: "api_keys", Kept: "for 90 days after they ended", Age: "expires_at", After: 90 * day},
		{Table: "members", Kept: "for ever: the audit log names them"},
		{Table: "recovery_codes", Kept: "until they are used, or the second factor is turned off"},
		{Table: "sessions", Kept: "until they expire", Age: "expires_at"},
		{Table: "operators", Kept: "for ever: the audit log names them"},
		{Table: "operator_sessions", Kept: "until they expire", Age: "expires_at"},
		{Table: "login_links", Kept: "until they expire", Age: "expires_at"},
		{Table: "password_resets", Kept: "until they expire", Age: "expires_at"},
		{Table: "pending_registrations", Kept: "for a day", Age: "created_at", After: day},
		{Table: "known_networks", Kept: "for 90 days after the last login from there", Age: "last_at", After: 90 * day},
		{Table: "listen_events", Kept: "for an hour", Age: "created_at", After: time.Hour},
		{Table: "idempotency_keys", Kept: "for 7 days", Age: "created_at", After: 7 * day},
		// Where the last comparison of a kind ended, the next one begins, or says what is left out.
		{
			Table: "reconciliations", Kept: "AJO_KEEP_REPORTS, but for the last one of each kind", Age: "started_at", After: k.Reports,
			Only: "status IN ('finished', 'failed') AND window_to < (SELECT max(window_to) FROM reconciliations WHERE kind = 'periodic' AND status = 'finished')" +
				" AND (kind, window_to) NOT IN (SELECT kind, max(window_to) FROM reconciliations WHERE status = 'finished' GROUP BY kind)",
		},
		audit,
	}
}

// Purge removes all rows that are old by now, step of them in one statement; what another process
// is removing it leaves to that one. If the removal from one table fails, the others still go on.
func Purge(ctx context.Context, pool *pg.Pool, k Keep, now time.Time, step int) error {
	var failed error
	for _, r := range Rules(k) {
		if r.Age != "" {
			failed = errors.Join(failed, r.deleteOld(ctx, pool, now, step))
		}
	}
	return failed
}

func (r Rule) deleteOld(ctx context.Context, pool *pg.Pool, now time.Time, step int) error {
	only := ""
	if r.Only != "" {
		only = " AND " + r.Only
	}
	sql := fmt.Sprintf(`
		DELETE FROM %[1]s WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM %[1]s WHERE %[2]s < $1%[3]s ORDER BY %[2]s LIMIT $2 FOR UPDATE SKIP LOCKED))`, r.Table, r.Age, only)
	for {
		tag, err := pool.Exec(ctx, sql, now.Add(-r.After), step)
		if err != nil {
			return fmt.Errorf("old rows of %s: %w", r.Table, err)
		}
		if tag.RowsAffected() < int64(step) {
			return nil
		}
	}
}
