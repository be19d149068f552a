-- A column that the rows after this file have, and those before it get in the next one.
-- +goose Up
ALTER TABLE deliveries ADD COLUMN region text;
ALTER TABLE deliveries
    ALTER COLUMN region SET DEFAULT 'ng',
    ADD CONSTRAINT deliveries_region CHECK (region IS NOT NULL) NOT VALID;
