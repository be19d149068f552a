-- Reads nothing: the constraint has been checked.
-- +goose Up
ALTER TABLE deliveries ALTER COLUMN region SET NOT NULL;
ALTER TABLE deliveries DROP CONSTRAINT deliveries_region;
