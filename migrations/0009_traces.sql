-- The trace that a payment or a settlement belongs to, so that whoever works on its row goes on with it (package trace).
-- +goose Up
SET lock_timeout = '5s';

-- The W3C traceparent of the step that stored the row; '' for what is not traced. No table is rewritten for it.
ALTER TABLE inbound_events ADD COLUMN traceparent text NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN traceparent text NOT NULL DEFAULT '';
ALTER TABLE transfers ADD COLUMN traceparent text NOT NULL DEFAULT '';
