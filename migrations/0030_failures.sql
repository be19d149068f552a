-- Work that fails for a reason that is its row's own, or ours, waits longer each time.
-- +goose Up
SET lock_timeout = '5s';

-- How often the handling of the row has ended in an error. It has nothing to do with what a bank or a tenant answered: those have
-- their own counts and schedules.
ALTER TABLE inbound_events ADD COLUMN failure_count integer NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN failure_count integer NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN failure_count integer NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN failure_count integer NOT NULL DEFAULT 0;
