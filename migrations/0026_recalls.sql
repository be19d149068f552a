-- Recalls: the bank may take back a payment after it was confirmed. Until it is clear whether it has, the sum covers no settlement.
-- +goose Up
SET lock_timeout = '5s';

-- One row a payment, from the first word of it. The question is the payment's own confirmation, asked anew (inbound_events.next_attempt_at).
CREATE TABLE recalls (
    event_id     uuid PRIMARY KEY, -- of inbound_events, which keeps what is authentic
    tenant_id    uuid NOT NULL,
    account_id   uuid NOT NULL,
    -- Who said it last.
    source       text NOT NULL CHECK (source IN ('event', 'reconciliation', 'operator')),
    -- open: asked about; reversed: the bank took it back; kept: its record still says success.
    status       text NOT NULL CHECK (status IN ('open', 'reversed', 'kept')),
    -- What the account's hold has of it while it is open.
    held         naira NOT NULL CHECK (held >= 0),
    -- Answers "success" since it was opened.
    successes    integer NOT NULL DEFAULT 0,
    -- How often it was opened: what the bank's record has contradicted is not opened again at once.
    opened_count integer NOT NULL DEFAULT 1,
    opened_at    timestamptz NOT NULL,
    closed_at    timestamptz,
    CHECK ((status = 'open') = (closed_at IS NULL)),
    CHECK (status = 'open' OR held = 0)
);
CREATE INDEX recalls_open ON recalls (opened_at) WHERE status = 'open';
CREATE TRIGGER recalls_status AFTER UPDATE ON recalls FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_status_move('open>reversed', 'open>kept', 'kept>open');
CREATE TRIGGER recalls_kept BEFORE DELETE ON recalls FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- NULL until an account's first recall, so that the rows of all others stay as short as they are.
ALTER TABLE ledger_balances
    -- The part of the balance that may have been taken back: it covers no settlement.
    ADD COLUMN recall_held naira CHECK (recall_held >= 0),
    -- What was taken back for good, ever.
    ADD COLUMN recall_reversed naira CHECK (recall_reversed >= 0),
    -- Counts both kinds of change: a settlement that was found covered before one of them is not submitted after it.
    ADD COLUMN recall_count bigint;

-- A confirmed credit is reversed by a recall alone.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_recalled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM recalls WHERE event_id = NEW.transaction_group_id AND status <> 'kept') THEN
        RAISE EXCEPTION 'ledger entry %: a confirmed credit is reversed by a recall alone', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER ledger_entries_refund ON ledger_entries;
CREATE TRIGGER ledger_entries_refund AFTER UPDATE ON ledger_entries FOR EACH ROW
    WHEN (OLD.status = 'confirmed' AND NEW.status = 'reversed' AND OLD.direction = 'credit') EXECUTE FUNCTION ledger_entry_recalled();
