-- Events for tenants: webhook deliveries with every attempt, and what `ajo listen` reads.
-- +goose Up

CREATE TABLE webhook_endpoints (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL REFERENCES tenants (id),
    url                   text NOT NULL CHECK (url <> ''),
    events                text[] NOT NULL CHECK (cardinality(events) > 0
        AND events <@ '{payment.received,payment.confirmed,payment.reversed,settlement.succeeded,settlement.failed,settlement.refunded}'::text[]),
    account_refs          text[] CHECK (cardinality(account_refs) BETWEEN 1 AND 100),
    secret                bytea,
    secret_previous       bytea,
    secret_previous_until timestamptz,
    retries               text NOT NULL DEFAULT 'standard' CHECK (retries IN ('standard', 'day')),
    paused_at             timestamptz,
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL,
    removed_at            timestamptz,
    CHECK ((removed_at IS NULL) = (secret IS NOT NULL))
);
CREATE UNIQUE INDEX webhook_endpoints_url ON webhook_endpoints (tenant_id, url) WHERE removed_at IS NULL;
COMMENT ON TABLE webhook_endpoints IS 'Where a tenant''s events are sent beside its webhook_url, each with its own secret. A removed one stays: deliveries name it.';
COMMENT ON COLUMN webhook_endpoints.events IS 'the types that it gets';
COMMENT ON COLUMN webhook_endpoints.account_refs IS 'the accounts whose events it gets; NULL: all';
COMMENT ON COLUMN webhook_endpoints.secret IS 'signing secret, sealed; NULL: the endpoint is removed';
COMMENT ON COLUMN webhook_endpoints.secret_previous IS 'the secret before it, sealed; signs too until secret_previous_until';
COMMENT ON COLUMN webhook_endpoints.retries IS 'standard: six attempts in 95 minutes; day: ten in 24 hours';
COMMENT ON COLUMN webhook_endpoints.paused_at IS 'since when its deliveries wait; NULL: they are sent';

-- Partitioned by the time in the ids (package partition, which makes the partitions by the model of
-- the last one: table_later). No foreign keys, for the reason given at ledger_entries.
CREATE TABLE deliveries (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL,
    account_id           uuid NOT NULL,
    transaction_group_id uuid NOT NULL,
    created_at           timestamptz NOT NULL,
    delivered_at         timestamptz,
    attempt_count        integer NOT NULL DEFAULT 0,
    duration_ms          integer,
    status_code          integer,
    event_type           text NOT NULL,
    callback_url         text NOT NULL,
    body                 bytea NOT NULL,
    status               text NOT NULL CHECK (status IN ('pending', 'delivered', 'dead_letter')),
    last_error           text NOT NULL DEFAULT '',
    traceparent          text NOT NULL DEFAULT '',
    response_body        bytea CHECK (octet_length(response_body) <= 16384),
    endpoint_id          uuid,
    copy_of              uuid,
    resent               boolean NOT NULL DEFAULT false,
    replayed_after       integer,
    dead                 boolean NOT NULL GENERATED ALWAYS AS (status = 'dead_letter') STORED,
    CHECK ((status = 'delivered') = (delivered_at IS NOT NULL)),
    CHECK (duration_ms IS NULL OR delivered_at IS NOT NULL)
) PARTITION BY RANGE (id);
CREATE TABLE deliveries_later PARTITION OF deliveries FOR VALUES FROM (MINVALUE) TO (MAXVALUE)
    WITH (fillfactor = 46, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- In each partition by itself: an index of all cannot be unique without the id. An event is
-- published in the transaction of the fact that it reports, which happens once (the guards of
-- ledger_entries and transfers), so that this is a second guard. Each copy for one more endpoint
-- counts by itself. A hash of 64 bits stands for type and copy: it is half as wide as they are.
CREATE UNIQUE INDEX deliveries_later_once ON deliveries_later
    (transaction_group_id, hashtextextended(event_type || CASE WHEN copy_of IS NULL THEN '' ELSE id::text END, 0));
CREATE INDEX deliveries_list ON deliveries (tenant_id, id);
-- By a column that the everyday update leaves as it is, unlike the status: so that update stays HOT
-- (see ledger_entries).
CREATE INDEX deliveries_dead ON deliveries (tenant_id, id) WHERE dead;
-- A tenant's list of the events that are rare among the others.
CREATE INDEX deliveries_chosen ON deliveries (tenant_id, event_type, id) WHERE event_type <> 'payment.received';
CREATE INDEX deliveries_endpoint ON deliveries (tenant_id, endpoint_id, id) WHERE endpoint_id IS NOT NULL;
COMMENT ON TABLE deliveries IS 'An event for one endpoint of the tenant''s: one webhook, until it is delivered or a dead letter. A pending one has an item of work.';
COMMENT ON COLUMN deliveries.transaction_group_id IS 'the payment or settlement; with event_type it is sent once';
COMMENT ON COLUMN deliveries.endpoint_id IS 'of webhook_endpoints; NULL: the account''s or the tenant''s URL';
COMMENT ON COLUMN deliveries.copy_of IS 'the event''s first delivery, of which this is one more to another endpoint; NULL: this is the first, which stands for the event in the log';
COMMENT ON COLUMN deliveries.resent IS 'somebody asked for the event once more: the receiver is told so';
COMMENT ON COLUMN deliveries.replayed_after IS 'how many attempts there were before its last replay, which gave it a fresh set; NULL: it was never replayed';
COMMENT ON COLUMN deliveries.callback_url IS 'where it is sent; of an endpoint that has changed its URL: where the last attempt went';
COMMENT ON COLUMN deliveries.body IS
    'what the bytes that are signed and sent are made of, the same in every attempt: a digit and the values by line, or all of them (internal/compact)';
COMMENT ON COLUMN deliveries.duration_ms IS 'of the attempt that delivered it, as are status_code and response_body; it has no row in delivery_attempts';
COMMENT ON COLUMN deliveries.traceparent IS 'W3C trace context of the step that stored the row; empty if not traced';
COMMENT ON COLUMN deliveries.created_at IS 'of payment.received: when the payment''s event was received';
-- After the update, and without a call for the everyday move: see the ledger's guards.
CREATE TRIGGER deliveries_status AFTER UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'delivered'))
    EXECUTE FUNCTION check_move('status', 'pending>delivered', 'pending>dead_letter', 'dead_letter>pending');
CREATE TRIGGER deliveries_kept BEFORE DELETE ON deliveries FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE delivery_attempts (
    delivery_id   uuid NOT NULL,
    started_at    timestamptz NOT NULL,
    attempt       integer NOT NULL CHECK (attempt > 0),
    duration_ms   integer NOT NULL,
    status_code   integer,
    error         text NOT NULL CHECK (error <> ''),
    response_body bytea NOT NULL DEFAULT '' CHECK (octet_length(response_body) <= 16384),
    PRIMARY KEY (delivery_id, attempt)
) PARTITION BY RANGE (delivery_id);
CREATE TABLE delivery_attempts_later PARTITION OF delivery_attempts FOR VALUES FROM (MINVALUE) TO (MAXVALUE)
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
COMMENT ON TABLE delivery_attempts IS 'Each attempt of a delivery that failed, and its answer; the one that delivered it is in the row of deliveries. Append-only.';
COMMENT ON COLUMN delivery_attempts.status_code IS 'NULL when no answer came';
COMMENT ON COLUMN delivery_attempts.response_body IS 'the first 16 KiB of the answer';
CREATE TRIGGER delivery_attempts_append_only BEFORE UPDATE OR DELETE ON delivery_attempts FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE listen_events (
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id  uuid NOT NULL,
    id         uuid NOT NULL,
    event_type text NOT NULL,
    body       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE INDEX listen_events_age ON listen_events (created_at);
COMMENT ON TABLE listen_events IS
    'The last hour''s events of a tenant that is listening (ajo listen), whether it has a URL and chose their type or not.';
COMMENT ON COLUMN listen_events.seq IS
    'for one tenant in the order of commits: whoever writes holds a lock of the tenant''s until then; ids and times are made before the commit, so a reader that went by them would miss late commits';
COMMENT ON COLUMN listen_events.id IS 'the webhook-id of the event';
COMMENT ON COLUMN listen_events.created_at IS 'when it came into the feed, which may be long after it happened';
