-- Settlements, and the keys that make a request safe to repeat.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE transfers (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    account_id      uuid NOT NULL REFERENCES accounts (id),
    -- The one reference for the whole life of the transfer: the bank's idempotency key, and the tenant's only handle.
    merchant_tx_ref text NOT NULL UNIQUE,
    status          text NOT NULL CHECK (status IN ('pending', 'processing', 'success', 'failed', 'refunded')),
    amount          naira NOT NULL CHECK (amount > 0),
    currency        text NOT NULL DEFAULT 'NGN' CHECK (currency = 'NGN'),
    bank_code       text NOT NULL CHECK (bank_code ~ '^[0-9]{3,6}$'),
    account_number  text NOT NULL CHECK (account_number ~ '^[0-9]{10}$'),
    -- The holder of the destination, as the bank named it before the first submission.
    account_name    text NOT NULL DEFAULT '',
    narration       text NOT NULL DEFAULT '',
    -- Submissions to the bank; counted before each call, so a call that was cut off is counted too.
    attempt_count   integer NOT NULL DEFAULT 0,
    submitted_at    timestamptz,
    -- Questions since the last submission, and those among them that the bank answered with "not known".
    ask_count       integer NOT NULL DEFAULT 0,
    unknown_count   integer NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT '',
    next_attempt_at timestamptz,
    leased_until    timestamptz,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CHECK (status NOT IN ('pending', 'processing') OR next_attempt_at IS NOT NULL),
    CHECK (status <> 'processing' OR attempt_count > 0)
) WITH (fillfactor = 80);
CREATE INDEX transfers_due ON transfers (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX transfers_list ON transfers (tenant_id, id);
CREATE INDEX transfers_account ON transfers (account_id, id);
CREATE INDEX transfers_pending ON transfers (account_id, id) WHERE status = 'pending';
CREATE INDEX transfers_processing ON transfers (submitted_at) WHERE status = 'processing';

CREATE TRIGGER transfers_status BEFORE UPDATE ON transfers FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_status_move('pending>processing', 'pending>failed', 'processing>success', 'processing>failed',
        'processing>refunded', 'success>refunded');
CREATE TRIGGER transfers_kept BEFORE DELETE ON transfers FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- A payout that the bank gives back after it had said "success": the debit is reversed though it was confirmed. Credits
-- stay as they were: what the bank's record supported is never taken back by a question.
DROP TRIGGER ledger_entries_unchanged ON ledger_entries;
CREATE TRIGGER ledger_entries_unchanged BEFORE UPDATE ON ledger_entries FOR EACH ROW
    EXECUTE FUNCTION ledger_entry_unchanged('provisional>confirmed', 'provisional>reversed', 'provisional>needs_review',
        'needs_review>confirmed', 'needs_review>reversed', 'confirmed>reversed');
CREATE TRIGGER ledger_entries_refund BEFORE UPDATE ON ledger_entries FOR EACH ROW
    WHEN (OLD.status = 'confirmed' AND NEW.status = 'reversed' AND OLD.direction = 'credit') EXECUTE FUNCTION refuse_change();

-- One row a request that was sent with an Idempotency-Key and changed something, with its answer, in the same transaction.
CREATE TABLE idempotency_keys (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    key          text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
    -- SHA-256 of method, path and body: the same key with another request is refused.
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    -- NULL while the request is under way, in the hands of one caller until leased_until.
    status_code  integer,
    response     bytea,
    leased_until timestamptz,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key),
    CHECK ((status_code IS NULL) = (response IS NULL))
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
