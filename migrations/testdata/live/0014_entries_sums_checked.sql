-- +goose Up
ALTER TABLE ledger_entries VALIDATE CONSTRAINT ledger_entries_sums;
