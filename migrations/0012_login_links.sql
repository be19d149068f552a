-- Links that open one session each, made by an operator (`ajo tenant login-link`).
-- +goose Up
SET lock_timeout = '5s';

-- A row is a link that was not used yet; the link itself is nowhere, only its SHA-256.
CREATE TABLE login_links (
    token_hash  bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX login_links_expiry ON login_links (expires_at);
