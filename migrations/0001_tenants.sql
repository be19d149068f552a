-- Tenants, their sessions, and the record of what operators did.
-- +goose Up
SET lock_timeout = '5s';

-- A sum of naira. A numeric(p,2) column would round 1.005 to 1.01 without a word, and numeric admits NaN; the domain refuses both.
CREATE DOMAIN naira AS numeric
    CHECK (VALUE <> 'NaN' AND scale(VALUE) <= 2 AND abs(VALUE) < 1000000000000000000);

CREATE TABLE tenants (
    id                       uuid PRIMARY KEY,
    name                     text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    email                    text NOT NULL UNIQUE CHECK (email = lower(email)),
    password_hash            text NOT NULL,
    email_verified_at        timestamptz,
    status                   text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    operator                 boolean NOT NULL DEFAULT false,
    kyc_status               text NOT NULL DEFAULT 'unverified' CHECK (kyc_status IN ('unverified', 'pending_review', 'verified')),
    business_type            text CHECK (business_type IN ('sole_proprietor', 'registered_business', 'ngo', 'other')),
    cac_number               text,
    -- SHA-256 of the API key; the key itself is nowhere.
    api_key_hash             bytea UNIQUE CHECK (octet_length(api_key_hash) = 32),
    api_key_suffix           text NOT NULL DEFAULT '',
    webhook_url              text NOT NULL DEFAULT '',
    -- The signing secret, sealed; the one before it signs beside it until previous_until.
    webhook_secret           bytea,
    webhook_secret_previous  bytea,
    webhook_secret_previous_until timestamptz,
    -- The one-time code under way: its hash, its end, and the wrong tries so far.
    code_hash                bytea,
    code_expires_at          timestamptz,
    code_tries               integer NOT NULL DEFAULT 0,
    created_at               timestamptz NOT NULL,
    updated_at               timestamptz NOT NULL,
    CHECK ((kyc_status = 'verified') <= (business_type IS NOT NULL))
);

CREATE TABLE sessions (
    token_hash  bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX sessions_tenant ON sessions (tenant_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- Who did what by hand, and why. Append-only.
CREATE TABLE audit_log (
    id         uuid PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    target     text NOT NULL,
    reason     text NOT NULL,
    detail     jsonb NOT NULL DEFAULT '{}'
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is not allowed: its rows are kept as they are', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The second home of the transition tables (the first is Go: internal/fsm). The arguments of the trigger are the allowed
-- moves of the status column, as 'from>to'. Every state × state pair is tried by a test against the table in Go.
-- +goose StatementBegin
CREATE FUNCTION check_status_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (OLD.status || '>' || NEW.status) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION '%: status may not move from % to %', TG_TABLE_NAME, OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- The same for a kyc_status column.
-- +goose StatementBegin
CREATE FUNCTION check_kyc_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (OLD.kyc_status || '>' || NEW.kyc_status) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION '%: kyc_status may not move from % to %', TG_TABLE_NAME, OLD.kyc_status, NEW.kyc_status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tenants_kyc BEFORE UPDATE ON tenants FOR EACH ROW WHEN (OLD.kyc_status IS DISTINCT FROM NEW.kyc_status)
    EXECUTE FUNCTION check_kyc_move('unverified>verified');
