-- The books can be checked entry by entry: when an entry left the balance and came back, and a hash chain for each account.
--
-- An account's chain begins with its first entry after this migration (chain_from); what stood before is not covered. While
-- a program of the version before still posts, its entries have no hash and are reported as such: stop it first.
-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE ledger_entries
    -- The account's last_seq when the entry went under review, and when it left it: between them it is not in the balance.
    ADD COLUMN held_seq bigint,
    ADD COLUMN released_seq bigint,
    -- SHA-256 over the hash of the account's entry before, and this entry's fields but for its status (ledger/chain.go).
    ADD COLUMN hash bytea;

-- The reviews of an account, of which there are few.
CREATE INDEX ledger_entries_reviewed ON ledger_entries (account_id) WHERE held_seq IS NOT NULL OR released_seq IS NOT NULL;

ALTER TABLE ledger_balances
    -- The first entry of the chain.
    ADD COLUMN chain_from bigint NOT NULL DEFAULT 1,
    -- The newest entry's hash; NULL while the chain has none.
    ADD COLUMN chain_head bytea CHECK (octet_length(chain_head) = 32);
UPDATE ledger_balances SET chain_from = last_seq + 1 WHERE last_seq > 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_unchanged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved ledger_entries := OLD;
BEGIN
    moved.status := NEW.status;
    IF NEW.status = 'needs_review' AND OLD.held_seq IS NULL THEN
        moved.held_seq := NEW.held_seq;
    END IF;
    IF OLD.status = 'needs_review' AND OLD.released_seq IS NULL THEN
        moved.released_seq := NEW.released_seq;
    END IF;
    IF moved IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'ledger entry % is immutable but for its status', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NOT (OLD.status || '>' || NEW.status) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION 'ledger_entries: status may not move from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
