-- What the bank told us: stored before it is answered, and the outbox of posting and confirmation.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE inbound_events (
    id               uuid PRIMARY KEY,
    -- Where it came from: the bank's webhook, or its transaction list when the webhook never came.
    source           text NOT NULL CHECK (source IN ('webhook', 'reconciliation')),
    signature_valid  boolean NOT NULL,
    -- Whether it takes part in uniqueness: a forged event must not block a real one.
    authentic        boolean NOT NULL,
    request_id       text NOT NULL,
    provider_txn_ref text NOT NULL,
    event_type       text NOT NULL,
    status           text NOT NULL CHECK (status IN ('received', 'processed', 'ignored', 'failed')),
    category         text NOT NULL DEFAULT '' CHECK (category IN ('', 'payment', 'misdirected', 'sig_invalid', 'non_payment_event', 'processing_error')),
    error_message    text NOT NULL DEFAULT '',
    -- The fields that posting needs, as the event has them; NULL where it is not a payment.
    amount           naira,
    fee              naira,
    currency         text NOT NULL DEFAULT '',
    alias            text NOT NULL DEFAULT '',
    alias_number     text NOT NULL DEFAULT '',
    sender_name      text NOT NULL DEFAULT '',
    narration        text NOT NULL DEFAULT '',
    occurred_at      timestamptz,
    -- SHA-256 of those fields: the same id with another digest is not the same payment.
    digest           bytea NOT NULL CHECK (octet_length(digest) = 32),
    body             bytea NOT NULL,
    -- Set when posted.
    tenant_id        uuid,
    account_id       uuid REFERENCES accounts (id),
    -- Work: while 'received', the next try to post; once posted, the next question to the bank; NULL when nothing is left.
    next_attempt_at  timestamptz,
    attempt_count    integer NOT NULL DEFAULT 0,
    misses           integer NOT NULL DEFAULT 0,
    leased_until     timestamptz,
    last_error       text NOT NULL DEFAULT '',
    retry_count      integer NOT NULL DEFAULT 0,
    received_at      timestamptz NOT NULL,
    processed_at     timestamptz,
    CHECK ((category = 'payment') = (status = 'processed')),
    CHECK (status <> 'processed' OR (account_id IS NOT NULL AND amount IS NOT NULL AND processed_at IS NOT NULL)),
    CHECK (status <> 'received' OR next_attempt_at IS NOT NULL),
    CHECK (NOT (category = 'sig_invalid' AND authentic))
);
CREATE UNIQUE INDEX inbound_events_request ON inbound_events (request_id) WHERE authentic;
CREATE UNIQUE INDEX inbound_events_transaction ON inbound_events (provider_txn_ref, event_type) WHERE authentic AND provider_txn_ref <> '';
CREATE INDEX inbound_events_due ON inbound_events (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX inbound_events_forged ON inbound_events (received_at) WHERE category = 'sig_invalid';
CREATE INDEX inbound_events_misdirected ON inbound_events (id) WHERE category = 'misdirected';

CREATE TRIGGER inbound_events_status BEFORE UPDATE ON inbound_events FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_status_move('received>processed', 'received>failed', 'failed>processed');
CREATE TRIGGER inbound_events_kept BEFORE DELETE ON inbound_events FOR EACH ROW WHEN (OLD.authentic) EXECUTE FUNCTION refuse_change();
