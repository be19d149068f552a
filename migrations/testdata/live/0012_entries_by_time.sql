-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS ledger_entries_by_time;
CREATE INDEX CONCURRENTLY ledger_entries_by_time ON ledger_entries (created_at);
