-- Customers and their virtual accounts.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE customers (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    external_ref text NOT NULL,
    name         text NOT NULL,
    bvn          bytea, -- sealed
    bvn_last4    text CHECK (bvn_last4 ~ '^[0-9]{4}$'),
    nin          bytea, -- sealed
    nin_last4    text CHECK (nin_last4 ~ '^[0-9]{4}$'),
    kyc_tier     integer NOT NULL DEFAULT 1 CHECK (kyc_tier IN (1, 2, 3)),
    kyc_status   text NOT NULL DEFAULT 'none' CHECK (kyc_status IN ('none', 'pending_review', 'approved', 'rejected')),
    status       text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    UNIQUE (tenant_id, external_ref)
);
CREATE INDEX customers_list ON customers (tenant_id, id);

CREATE TRIGGER customers_kyc BEFORE UPDATE ON customers FOR EACH ROW WHEN (OLD.kyc_status IS DISTINCT FROM NEW.kyc_status)
    EXECUTE FUNCTION check_kyc_move('none>approved', 'rejected>approved', 'none>pending_review', 'rejected>pending_review',
        'none>rejected', 'pending_review>approved', 'pending_review>rejected');

CREATE TABLE accounts (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    customer_id         uuid NOT NULL REFERENCES customers (id),
    account_ref         text NOT NULL CHECK (char_length(account_ref) BETWEEN 1 AND 255),
    provider            text NOT NULL,
    bank_account_number text CHECK (bank_account_number ~ '^[0-9]{10}$'),
    bank_account_name   text NOT NULL,
    bank_name           text NOT NULL DEFAULT '',
    currency            text NOT NULL DEFAULT 'NGN' CHECK (currency = 'NGN'),
    -- 'provisioning': the row stands before the bank is called, and no endpoint shows it until the bank has answered.
    status              text NOT NULL CHECK (status IN ('provisioning', 'active', 'expired')),
    type                text NOT NULL CHECK (type IN ('dedicated', 'onetime')),
    callback_url        text,
    expected_amount     naira CHECK (expected_amount > 0),
    expires_at          timestamptz,
    -- The moment from which payments are refused: a payment made at or before it is still accepted.
    expired_at          timestamptz,
    -- When the bank confirmed that the number is closed.
    closed_at           timestamptz,
    -- Work: provisioning under way (lease), the deadline of a one-time account, then the close at the bank.
    next_attempt_at     timestamptz,
    attempt_count       integer NOT NULL DEFAULT 0,
    leased_until        timestamptz,
    last_error          text NOT NULL DEFAULT '',
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    CHECK (status = 'provisioning' OR bank_account_number IS NOT NULL),
    CHECK ((status = 'expired') = (expired_at IS NOT NULL)),
    CHECK (type = 'onetime' OR expires_at IS NULL)
);
CREATE UNIQUE INDEX accounts_dedicated ON accounts (tenant_id, account_ref) WHERE type = 'dedicated';
CREATE UNIQUE INDEX accounts_number ON accounts (provider, bank_account_number);
CREATE INDEX accounts_number_only ON accounts (bank_account_number);
CREATE INDEX accounts_list ON accounts (tenant_id, id);
CREATE INDEX accounts_ref ON accounts (account_ref, tenant_id);
CREATE INDEX accounts_customer ON accounts (customer_id);
CREATE INDEX accounts_due ON accounts (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

CREATE TRIGGER accounts_status BEFORE UPDATE ON accounts FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_status_move('provisioning>active', 'active>expired');

CREATE TABLE account_history (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL REFERENCES accounts (id),
    from_status text,
    to_status   text NOT NULL,
    reason      text NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE INDEX account_history_account ON account_history (account_id, id);
CREATE UNIQUE INDEX account_history_once ON account_history (account_id, to_status);
CREATE TRIGGER account_history_append_only BEFORE UPDATE OR DELETE ON account_history FOR EACH ROW EXECUTE FUNCTION refuse_change();
