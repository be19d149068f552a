-- What whoever registered a taken address chose as a password: they are told what those are who registered a free one.
-- +goose Up
SET lock_timeout = '5s';

-- argon2id, as password_hash; '' while nobody has tried. It opens nothing.
ALTER TABLE tenants ADD COLUMN claim_hash text NOT NULL DEFAULT '';
