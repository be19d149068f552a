-- More events than payment.received, for tenants that chose them, and what a developer's `ajo listen` reads.
-- +goose Up
SET lock_timeout = '5s';

-- Package webhook's columns of the row that posting, confirming and settling read anyway.
ALTER TABLE tenants
    -- The events that the tenant chose beside payment.received, which nobody can drop.
    ADD COLUMN webhook_events text[] NOT NULL DEFAULT '{}'
        CHECK (webhook_events <@ '{payment.confirmed,payment.reversed,settlement.succeeded,settlement.failed,settlement.refunded}'::text[]),
    -- Until then every event of the tenant is written to listen_events too; NULL: nobody has ever listened.
    ADD COLUMN listening_until timestamptz;

-- What a tenant that listens was told in the last hour, whether it has a URL and chose the event or not.
CREATE TABLE listen_events (
    -- Of one tenant in the order of the commits: whoever writes holds a lock of the tenant's until then (package webhook). Ids and
    -- times are made before the commit, and a reader that went by them would miss what is committed late.
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id  uuid NOT NULL,
    -- What webhook-id says of the event.
    id         uuid NOT NULL,
    event_type text NOT NULL,
    body       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE INDEX listen_events_age ON listen_events (created_at);

-- A tenant's list of the events that are rare among the others.
CREATE INDEX deliveries_chosen ON deliveries (tenant_id, event_type, id) WHERE event_type <> 'payment.received';
