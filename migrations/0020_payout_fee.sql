-- What the bank's record says of a payout beside its outcome, and what its tenant may read of it.
-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE transfers
    -- The fee that the bank takes for the payout, by its own record; NULL while the bank has not said. It is outside the balance.
    ADD COLUMN provider_fee naira CHECK (provider_fee >= 0),
    -- Why it failed or was given back, in words for its tenant; last_error has the bank's own, for operators.
    ADD COLUMN failure_reason text NOT NULL DEFAULT '',
    -- The destination's bank, as the bank's list named it when the transfer was accepted; '' while the list could not be had.
    ADD COLUMN bank_name text NOT NULL DEFAULT '';
