-- The payer's bank, which the statement shows beside the payer's name. Events of before have it in their body alone.
-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE inbound_events ADD COLUMN sender_bank text NOT NULL DEFAULT '';
