-- A bank issues the number of a closed account again.
-- +goose Up
SET lock_timeout = '5s';

-- Unique among the accounts that are open at the bank: those that it has not confirmed as closed.
DROP INDEX accounts_number;
CREATE UNIQUE INDEX accounts_number ON accounts (provider, bank_account_number) WHERE closed_at IS NULL;
