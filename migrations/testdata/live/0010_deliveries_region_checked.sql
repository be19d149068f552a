-- Reads the whole table, beside everything else.
-- +goose Up
ALTER TABLE deliveries VALIDATE CONSTRAINT deliveries_region;
