-- A payout that the bank has is not submitted again and not given back because the bank does not find it; what the bank's record says
-- otherwise than the books stands on the transfer until a person has ended it.
-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE transfers
    -- When an answer of the bank first showed that it has the reference: accepted, under way, a duplicate, or a record. For good.
    ADD COLUMN acknowledged_at timestamptz,
    -- Whose word the last change of its outcome is: the bank's record or refusal, the bank's not knowing any of five submissions
    -- (silence), the ledger's (it was never covered), or an operator's.
    ADD COLUMN ended_by text NOT NULL DEFAULT '' CHECK (ended_by IN ('', 'bank', 'silence', 'books', 'operator')),
    -- What the bank's record says otherwise than the books, '' where they agree; and since when that waits for a person. NULL with a text:
    -- a person has dealt with it.
    ADD COLUMN difference text NOT NULL DEFAULT '',
    ADD COLUMN differs_since timestamptz CHECK (differs_since IS NULL OR difference <> ''),
    -- The transaction group of its debit, where an operator has booked a new one in place of the first, whose group is the transfer's id.
    ADD COLUMN debit_group uuid UNIQUE,
    -- What has left by that debit, where it is another sum than was ordered.
    ADD COLUMN paid_amount naira CHECK (paid_amount IS NULL OR (paid_amount > 0 AND debit_group IS NOT NULL));
CREATE INDEX transfers_differ ON transfers (differs_since) WHERE differs_since IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION transfer_acknowledged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transfer %: the bank has acknowledged it; it is not submitted again, and fails at the bank''s or an operator''s word only', OLD.id
        USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION transfer_rebooked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transfer %: from % to % only by an operator, and with a new debit', OLD.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER transfers_acknowledged AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.acknowledged_at IS NOT NULL AND (NEW.acknowledged_at IS DISTINCT FROM OLD.acknowledged_at OR NEW.attempt_count <> OLD.attempt_count
        OR (OLD.status = 'processing' AND NEW.status = 'failed' AND NEW.ended_by NOT IN ('bank', 'operator'))))
    EXECUTE FUNCTION transfer_acknowledged();
CREATE TRIGGER transfers_rebooked AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IN ('failed', 'refunded') AND NEW.status = 'success'
        AND (NEW.ended_by <> 'operator' OR NEW.debit_group IS NULL OR NEW.debit_group IS NOT DISTINCT FROM OLD.debit_group))
    EXECUTE FUNCTION transfer_rebooked();

-- The moves of 0016, and what an operator books after the end: the bank has paid what had failed or come back.
DROP TRIGGER transfers_status ON transfers;
CREATE TRIGGER transfers_status AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'processing')
        AND NOT (OLD.status = 'processing' AND NEW.status = 'success'))
    EXECUTE FUNCTION check_status_move('pending>processing', 'pending>failed', 'processing>success', 'processing>failed',
        'processing>refunded', 'success>refunded', 'failed>success', 'refunded>success');
