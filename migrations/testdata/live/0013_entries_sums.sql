-- +goose Up
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_sums CHECK (amount > 0) NOT VALID;
