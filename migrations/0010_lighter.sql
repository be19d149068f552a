-- The hot path's rows, made lighter to write; what the schema guards stays guarded. Measured by `make bench`
-- (docs/performance.md).
-- +goose Up
SET lock_timeout = '5s';

-- Room on a page for a row's next versions. A row that stays on its page and changes no indexed column needs no new index
-- entries (HOT): an event is claimed and concluded, an entry confirmed, a transfer claimed again and again. It holds for pages
-- that are written from now on; nothing is rewritten.
ALTER TABLE inbound_events SET (fillfactor = 60);
ALTER TABLE ledger_entries SET (fillfactor = 85);
ALTER TABLE transfers SET (fillfactor = 60);

-- The moves that every payment and every settlement makes are allowed by the trigger's own condition; its function is called
-- for all others.
DROP TRIGGER inbound_events_status ON inbound_events;
CREATE TRIGGER inbound_events_status BEFORE UPDATE ON inbound_events FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'received' AND NEW.status = 'processed'))
    EXECUTE FUNCTION check_status_move('received>processed', 'received>failed', 'failed>processed');
DROP TRIGGER deliveries_status ON deliveries;
CREATE TRIGGER deliveries_status BEFORE UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'delivered'))
    EXECUTE FUNCTION check_status_move('pending>delivered', 'pending>dead_letter', 'dead_letter>pending');
DROP TRIGGER transfers_status ON transfers;
CREATE TRIGGER transfers_status BEFORE UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'processing')
        AND NOT (OLD.status = 'processing' AND NEW.status = 'success'))
    EXECUTE FUNCTION check_status_move('pending>processing', 'pending>failed', 'processing>success', 'processing>failed',
        'processing>refunded', 'success>refunded');

-- An entry that is confirmed and otherwise unchanged. Whoever adds a column names it here too: a test compares.
DROP TRIGGER ledger_entries_unchanged ON ledger_entries;
CREATE TRIGGER ledger_entries_unchanged BEFORE UPDATE ON ledger_entries FOR EACH ROW
    WHEN (NOT (OLD.status = 'provisional' AND NEW.status = 'confirmed'
        AND (OLD.id, OLD.tenant_id, OLD.account_id, OLD.contra, OLD.seq, OLD.direction, OLD.amount, OLD.fee, OLD.currency, OLD.narration,
            OLD.provider_txn_ref, OLD.transaction_group_id, OLD.transfer_ref, OLD.reversal_of, OLD.running_balance, OLD.created_at,
            OLD.held_seq, OLD.released_seq, OLD.hash)
        IS NOT DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.account_id, NEW.contra, NEW.seq, NEW.direction, NEW.amount, NEW.fee, NEW.currency, NEW.narration,
            NEW.provider_txn_ref, NEW.transaction_group_id, NEW.transfer_ref, NEW.reversal_of, NEW.running_balance, NEW.created_at,
            NEW.held_seq, NEW.released_seq, NEW.hash)))
    EXECUTE FUNCTION ledger_entry_unchanged('provisional>confirmed', 'provisional>reversed', 'provisional>needs_review',
        'needs_review>confirmed', 'needs_review>reversed', 'confirmed>reversed');

-- A query of its own for each row, to find an account again that the transaction has just read, and that nothing can remove:
-- an account has a balance row, which refers to it and cannot be deleted; a delivery is never deleted.
ALTER TABLE inbound_events DROP CONSTRAINT inbound_events_account_id_fkey;
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_account_id_fkey;
ALTER TABLE deliveries DROP CONSTRAINT deliveries_account_id_fkey;
ALTER TABLE delivery_attempts DROP CONSTRAINT delivery_attempts_delivery_id_fkey;
CREATE TRIGGER deliveries_kept BEFORE DELETE ON deliveries FOR EACH ROW EXECUTE FUNCTION refuse_change();
