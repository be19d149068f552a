-- The ledger: entries that never change but for their status, and a running total for each account.
-- Only package ledger writes these tables.
-- +goose Up
SET lock_timeout = '5s';

-- One row is both sides of a movement: account_id has the customer's side in the given direction, contra the system
-- account that has the opposite one. So a movement cannot be half written, and no system row is updated by every payment.
CREATE TABLE ledger_entries (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL,
    account_id           uuid NOT NULL REFERENCES accounts (id),
    contra               text NOT NULL DEFAULT 'provider_float' CHECK (contra = 'provider_float'),
    -- Position in the account, from 1 without a gap; the statement's order and its cursor.
    seq                  bigint NOT NULL CHECK (seq > 0),
    direction            text NOT NULL CHECK (direction IN ('credit', 'debit')),
    amount               naira NOT NULL CHECK (amount > 0),
    fee                  naira NOT NULL DEFAULT 0 CHECK (fee >= 0),
    currency             text NOT NULL DEFAULT 'NGN' CHECK (currency = 'NGN'),
    status               text NOT NULL CHECK (status IN ('provisional', 'confirmed', 'reversed', 'needs_review')),
    narration            text NOT NULL DEFAULT '',
    provider_txn_ref     text NOT NULL DEFAULT '',
    -- One payment or one settlement. With direction it is unique: nothing is posted twice, nothing reversed twice.
    transaction_group_id uuid NOT NULL,
    transfer_ref         text,
    reversal_of          uuid REFERENCES ledger_entries (id),
    running_balance      naira NOT NULL,
    created_at           timestamptz NOT NULL,
    -- A debit under review would free money that may be on its way out.
    CHECK (NOT (direction = 'debit' AND status = 'needs_review')),
    CHECK (reversal_of IS NULL OR status = 'reversed')
);
CREATE UNIQUE INDEX ledger_entries_seq ON ledger_entries (account_id, seq);
CREATE UNIQUE INDEX ledger_entries_group ON ledger_entries (transaction_group_id, direction);
CREATE UNIQUE INDEX ledger_entries_reversal ON ledger_entries (reversal_of) WHERE reversal_of IS NOT NULL;
CREATE INDEX ledger_entries_transfer ON ledger_entries (transfer_ref) WHERE transfer_ref IS NOT NULL;

-- balance = total_credits − total_debits always holds: an entry under review is in neither, a reversed one and its
-- reversal are in one each. fillfactor leaves room for updates in place.
CREATE TABLE ledger_balances (
    account_id          uuid PRIMARY KEY REFERENCES accounts (id),
    tenant_id           uuid NOT NULL,
    total_credits       naira NOT NULL DEFAULT 0 CHECK (total_credits >= 0),
    total_debits        naira NOT NULL DEFAULT 0 CHECK (total_debits >= 0),
    balance             numeric NOT NULL GENERATED ALWAYS AS (total_credits - total_debits) STORED,
    -- The part of the balance that the bank has not confirmed: settlements wait for it.
    provisional_credits naira NOT NULL DEFAULT 0 CHECK (provisional_credits >= 0),
    last_seq            bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX ledger_balances_negative ON ledger_balances (account_id) WHERE total_credits < total_debits;

-- +goose StatementBegin
CREATE FUNCTION ledger_entry_unchanged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved ledger_entries := OLD;
BEGIN
    moved.status := NEW.status;
    IF moved IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'ledger entry % is immutable but for its status', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NOT (OLD.status || '>' || NEW.status) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION 'ledger_entries: status may not move from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION ledger_entry_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    original ledger_entries;
BEGIN
    IF NEW.reversal_of IS NULL THEN
        RAISE EXCEPTION 'a ledger entry begins as provisional, not %', NEW.status USING ERRCODE = 'check_violation';
    END IF;
    SELECT * INTO original FROM ledger_entries WHERE id = NEW.reversal_of;
    IF original.status <> 'reversed' OR original.account_id <> NEW.account_id OR original.amount <> NEW.amount
        OR original.direction = NEW.direction OR original.transaction_group_id <> NEW.transaction_group_id THEN
        RAISE EXCEPTION 'ledger entry % is not the reversal of %', NEW.id, NEW.reversal_of USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER ledger_entries_begin BEFORE INSERT ON ledger_entries FOR EACH ROW
    WHEN (NEW.status <> 'provisional' OR NEW.reversal_of IS NOT NULL) EXECUTE FUNCTION ledger_entry_begins();
CREATE TRIGGER ledger_entries_unchanged BEFORE UPDATE ON ledger_entries FOR EACH ROW
    EXECUTE FUNCTION ledger_entry_unchanged('provisional>confirmed', 'provisional>reversed', 'provisional>needs_review',
        'needs_review>confirmed', 'needs_review>reversed');
CREATE TRIGGER ledger_entries_kept BEFORE DELETE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_balances_kept BEFORE DELETE ON ledger_balances FOR EACH ROW EXECUTE FUNCTION refuse_change();
