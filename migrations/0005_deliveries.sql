-- Outbound webhooks: what is to be told, and every attempt to tell it.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE deliveries (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL,
    account_id           uuid NOT NULL REFERENCES accounts (id),
    transaction_group_id uuid NOT NULL,
    event_type           text NOT NULL,
    callback_url         text NOT NULL,
    -- The bytes that are signed and sent; the same in every attempt.
    body                 bytea NOT NULL,
    status               text NOT NULL CHECK (status IN ('pending', 'delivered', 'dead_letter')),
    attempt_count        integer NOT NULL DEFAULT 0,
    last_error           text NOT NULL DEFAULT '',
    -- The next attempt; NULL once delivered or dead.
    next_attempt_at      timestamptz,
    leased_until         timestamptz,
    -- When the payment's event was received.
    created_at           timestamptz NOT NULL,
    delivered_at         timestamptz,
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((status = 'delivered') = (delivered_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX deliveries_once ON deliveries (transaction_group_id, event_type);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX deliveries_list ON deliveries (tenant_id, id);
CREATE INDEX deliveries_dead ON deliveries (tenant_id, id) WHERE status = 'dead_letter';

CREATE TRIGGER deliveries_status BEFORE UPDATE ON deliveries FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_status_move('pending>delivered', 'pending>dead_letter', 'dead_letter>pending');

CREATE TABLE delivery_attempts (
    delivery_id   uuid NOT NULL REFERENCES deliveries (id),
    attempt       integer NOT NULL CHECK (attempt > 0),
    started_at    timestamptz NOT NULL,
    duration_ms   integer NOT NULL,
    -- NULL when no answer came.
    status_code   integer,
    error         text NOT NULL DEFAULT '',
    -- At most 16 KiB of the answer.
    response_body bytea NOT NULL DEFAULT '' CHECK (octet_length(response_body) <= 16384),
    PRIMARY KEY (delivery_id, attempt)
);
CREATE TRIGGER delivery_attempts_append_only BEFORE UPDATE OR DELETE ON delivery_attempts FOR EACH ROW EXECUTE FUNCTION refuse_change();
