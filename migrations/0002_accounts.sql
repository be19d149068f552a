-- Customers of a tenant, and their virtual accounts.
-- +goose Up

CREATE TABLE customers (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    external_ref    text NOT NULL,
    name            text NOT NULL,
    bvn             bytea,
    bvn_last4       text CHECK (bvn_last4 ~ '^[0-9]{4}$'),
    nin             bytea,
    nin_last4       text CHECK (nin_last4 ~ '^[0-9]{4}$'),
    nin_hash        bytea CHECK (octet_length(nin_hash) = 32),
    nin_shared      boolean NOT NULL DEFAULT false,
    kyc_tier        integer NOT NULL DEFAULT 1 CHECK (kyc_tier IN (1, 2, 3)),
    kyc_status      text NOT NULL DEFAULT 'none' CHECK (kyc_status IN ('none', 'pending_review', 'approved', 'rejected')),
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    release_account uuid,
    release_entry   uuid,
    UNIQUE (tenant_id, external_ref),
    CHECK ((release_account IS NULL) = (release_entry IS NULL))
);
CREATE INDEX customers_release ON customers (id) WHERE release_account IS NOT NULL;
CREATE INDEX customers_list ON customers (tenant_id, id);
CREATE INDEX customers_pending ON customers (id) WHERE kyc_status = 'pending_review';
-- One NIN approves one customer of a tenant, unless an operator decided otherwise. It has those of
-- such decisions too, each by its id, so that whom a NIN has approved is looked up by the hash.
CREATE UNIQUE INDEX customers_nin_once ON customers
    (tenant_id, nin_hash, (CASE WHEN nin_shared THEN id ELSE '00000000-0000-0000-0000-000000000000' END)) WHERE kyc_status = 'approved';
COMMENT ON TABLE customers IS 'A customer of a tenant: the holder of accounts, and the subject of KYC.';
COMMENT ON COLUMN customers.external_ref IS 'the tenant''s own reference';
COMMENT ON COLUMN customers.bvn IS 'bank verification number, sealed';
COMMENT ON COLUMN customers.nin IS 'national identification number, sealed';
COMMENT ON COLUMN customers.nin_hash IS 'keyed hash of the NIN submitted last (hash_keys)';
COMMENT ON COLUMN customers.nin_shared IS 'an operator approved the customer although its NIN had approved another one';
COMMENT ON COLUMN customers.release_account IS 'the tier has changed, and of what limits hold only this has been looked at: the accounts before this one, and of it up to release_entry; NULL: all';
COMMENT ON COLUMN customers.release_entry IS 'the credit whose hold was looked at last';
CREATE TRIGGER customers_kyc BEFORE UPDATE ON customers FOR EACH ROW WHEN (OLD.kyc_status IS DISTINCT FROM NEW.kyc_status)
    EXECUTE FUNCTION check_move('kyc_status', 'none>approved', 'rejected>approved', 'none>pending_review', 'rejected>pending_review',
        'none>rejected', 'pending_review>approved', 'pending_review>rejected', 'approved>none');

CREATE TABLE hash_keys (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    key        bytea NOT NULL,
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE hash_keys IS
    'A key that hashes are made with. It is made once, and only sealed anew when keys are rotated, so that the hashes stay the same.';
COMMENT ON COLUMN hash_keys.key IS 'sealed';

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
    status              text NOT NULL CHECK (status IN ('provisioning', 'active', 'expired')),
    type                text NOT NULL CHECK (type IN ('dedicated', 'onetime')),
    callback_url        text,
    expected_amount     naira CHECK (expected_amount > 0),
    expires_at          timestamptz,
    policy              jsonb,
    split               jsonb,
    expired_at          timestamptz,
    closed_at           timestamptz,
    attempt_count       integer NOT NULL DEFAULT 0,
    leased_until        timestamptz,
    last_error          text NOT NULL DEFAULT '',
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    precedence          smallint NOT NULL GENERATED ALWAYS AS
        (CASE status WHEN 'provisioning' THEN 0 WHEN 'expired' THEN 1 ELSE CASE type WHEN 'dedicated' THEN 3 ELSE 2 END END) STORED,
    CHECK (status = 'provisioning' OR bank_account_number IS NOT NULL),
    CHECK ((status = 'expired') = (expired_at IS NOT NULL)),
    CHECK (type = 'onetime' OR expires_at IS NULL),
    CONSTRAINT accounts_policy CHECK (policy IS NULL OR (policy <> '{}' AND policy - '{exact,under,over,late}'::text[] = '{}'
        AND coalesce(policy ->> 'exact', 'accept') IN ('accept', 'hold', 'refund') AND coalesce(policy ->> 'under', 'accept') IN ('accept', 'hold', 'refund')
        AND coalesce(policy ->> 'over', 'accept') IN ('accept', 'hold', 'refund') AND coalesce(policy ->> 'late', 'accept') IN ('accept', 'hold', 'refund')))
);
CREATE UNIQUE INDEX accounts_dedicated ON accounts (tenant_id, account_ref) WHERE type = 'dedicated';
-- A bank issues the number of a closed account again, so numbers are unique among the open ones.
CREATE UNIQUE INDEX accounts_number ON accounts (provider, bank_account_number) WHERE closed_at IS NULL;
CREATE INDEX accounts_number_only ON accounts (bank_account_number);
CREATE INDEX accounts_list ON accounts (tenant_id, id);
CREATE INDEX accounts_active ON accounts (tenant_id, id) WHERE status = 'active';
-- A reference may have a one-time account for each order there ever was: the one that it names is
-- the last of them here, and those that are being provisioned are the first.
CREATE INDEX accounts_ref ON accounts (account_ref, tenant_id, precedence, id);
CREATE INDEX accounts_customer ON accounts (customer_id, precedence, id);
COMMENT ON TABLE accounts IS 'A virtual account: a bank account number that belongs to one customer.';
COMMENT ON COLUMN accounts.account_ref IS 'the tenant''s own reference';
COMMENT ON COLUMN accounts.provider IS 'the upstream bank';
COMMENT ON COLUMN accounts.status IS
    'provisioning: stored before the bank is called, and not shown by any endpoint until the bank has answered';
COMMENT ON COLUMN accounts.type IS 'onetime: ends with the exact amount or at expires_at';
COMMENT ON COLUMN accounts.callback_url IS 'webhook URL of this account, in place of the tenant''s';
COMMENT ON COLUMN accounts.policy IS
    'what becomes of payments of exactly, under or over the expected amount, and of late ones: accept, hold or refund; NULL, or not named: accept, and late ones are misdirected';
COMMENT ON COLUMN accounts.split IS 'how confirmed payments are shared out, of those that are posted from now on; NULL: not at all';
COMMENT ON COLUMN accounts.expired_at IS 'payments made later are refused; one made at this moment is still accepted';
COMMENT ON COLUMN accounts.closed_at IS 'when the bank confirmed that the number is closed';
COMMENT ON COLUMN accounts.attempt_count IS 'attempts to close the number at the bank that failed';
COMMENT ON COLUMN accounts.precedence IS
    'of the accounts of one reference, that with the highest is named by it, and of several such the newest: an active dedicated one, an active one-time one, an expired one';
COMMENT ON COLUMN accounts.leased_until IS 'until then one request has the row while it is provisioned';
CREATE TRIGGER accounts_status BEFORE UPDATE ON accounts FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_move('status', 'provisioning>active', 'active>expired');

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
COMMENT ON TABLE account_history IS 'Each change of an account''s status. Append-only.';
COMMENT ON COLUMN account_history.from_status IS 'NULL for the first';
CREATE TRIGGER account_history_append_only BEFORE UPDATE OR DELETE ON account_history FOR EACH ROW EXECUTE FUNCTION refuse_change();
