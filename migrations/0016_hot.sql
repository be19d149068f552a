-- Updates that need no new index entries (HOT), where every payment and every settlement makes them (docs/performance.md). A column
-- counts as indexed if any index names it, and be it in its condition.
-- +goose Up
SET lock_timeout = '5s';

-- With the sums in its condition, each posting made new entries in every index of the balances. Nothing asks by it but a person
-- now and then, for whom one reading of the table is quick enough.
DROP INDEX ledger_balances_negative;

-- With the status in its condition, each confirmation made new entries in every index of the entries. An entry under review bears the
-- number after which it left the balance (0008), and ledger_entries_reviewed finds it by that; those of before 0008 get their own.
ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_unchanged;
UPDATE ledger_entries SET held_seq = seq WHERE status = 'needs_review' AND held_seq IS NULL;
ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_unchanged;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_held CHECK (status <> 'needs_review' OR held_seq IS NOT NULL) NOT VALID;
DROP INDEX ledger_entries_review;

-- Neighbours are updated in one transaction, so that a page must have room for a second version of each of its rows. It holds for
-- pages that are written from now on.
ALTER TABLE ledger_entries SET (fillfactor = 50);
ALTER TABLE deliveries SET (fillfactor = 45);
ALTER TABLE transfers SET (fillfactor = 45);

-- A BEFORE trigger locks each row that is to be updated, and writes that to the log, before its condition is looked at. What only
-- checks can do so after the update: an error undoes it just the same. The conditions are those of 0010.
DROP TRIGGER inbound_events_status ON inbound_events;
CREATE TRIGGER inbound_events_status AFTER UPDATE ON inbound_events FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'received' AND NEW.status = 'processed'))
    EXECUTE FUNCTION check_status_move('received>processed', 'received>failed', 'failed>processed');
DROP TRIGGER deliveries_status ON deliveries;
CREATE TRIGGER deliveries_status AFTER UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'delivered'))
    EXECUTE FUNCTION check_status_move('pending>delivered', 'pending>dead_letter', 'dead_letter>pending');
DROP TRIGGER transfers_status ON transfers;
CREATE TRIGGER transfers_status AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'processing')
        AND NOT (OLD.status = 'processing' AND NEW.status = 'success'))
    EXECUTE FUNCTION check_status_move('pending>processing', 'pending>failed', 'processing>success', 'processing>failed',
        'processing>refunded', 'success>refunded');
DROP TRIGGER ledger_entries_unchanged ON ledger_entries;
CREATE TRIGGER ledger_entries_unchanged AFTER UPDATE ON ledger_entries FOR EACH ROW
    WHEN (NOT (OLD.status = 'provisional' AND NEW.status = 'confirmed'
        AND (OLD.id, OLD.tenant_id, OLD.account_id, OLD.contra, OLD.seq, OLD.direction, OLD.amount, OLD.fee, OLD.currency, OLD.narration,
            OLD.provider_txn_ref, OLD.transaction_group_id, OLD.transfer_ref, OLD.reversal_of, OLD.running_balance, OLD.created_at,
            OLD.held_seq, OLD.released_seq, OLD.hash)
        IS NOT DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.account_id, NEW.contra, NEW.seq, NEW.direction, NEW.amount, NEW.fee, NEW.currency, NEW.narration,
            NEW.provider_txn_ref, NEW.transaction_group_id, NEW.transfer_ref, NEW.reversal_of, NEW.running_balance, NEW.created_at,
            NEW.held_seq, NEW.released_seq, NEW.hash)))
    EXECUTE FUNCTION ledger_entry_unchanged('provisional>confirmed', 'provisional>reversed', 'provisional>needs_review',
        'needs_review>confirmed', 'needs_review>reversed', 'confirmed>reversed');
DROP TRIGGER ledger_entries_refund ON ledger_entries;
CREATE TRIGGER ledger_entries_refund AFTER UPDATE ON ledger_entries FOR EACH ROW
    WHEN (OLD.status = 'confirmed' AND NEW.status = 'reversed' AND OLD.direction = 'credit') EXECUTE FUNCTION refuse_change();
