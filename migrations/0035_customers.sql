-- A name that is changed after its approval is approved no longer, and one NIN approves one customer of a tenant.
-- +goose Up
SET lock_timeout = '5s';

-- A key that hashes are made with, sealed. It is made once and sealed anew when keys are rotated, so that hashes stay what they are.
CREATE TABLE hash_keys (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    key        bytea NOT NULL,
    created_at timestamptz NOT NULL
);

-- nin_hash is the keyed hash of the NIN that was submitted last. nin_shared says that an operator approved the customer although its
-- NIN had approved another one of the tenant.
ALTER TABLE customers
    ADD COLUMN nin_hash bytea CHECK (octet_length(nin_hash) = 32),
    ADD COLUMN nin_shared boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX customers_nin_once ON customers (tenant_id, nin_hash) WHERE kyc_status = 'approved' AND NOT nin_shared;
CREATE INDEX customers_pending ON customers (id) WHERE kyc_status = 'pending_review';

DROP TRIGGER customers_kyc ON customers;
CREATE TRIGGER customers_kyc BEFORE UPDATE ON customers FOR EACH ROW WHEN (OLD.kyc_status IS DISTINCT FROM NEW.kyc_status)
    EXECUTE FUNCTION check_kyc_move('none>approved', 'rejected>approved', 'none>pending_review', 'rejected>pending_review',
        'none>rejected', 'pending_review>approved', 'pending_review>rejected', 'approved>none');
