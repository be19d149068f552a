-- Each registration waits for its own code, and nobody's password is changed by another's registration.
-- +goose Up
SET lock_timeout = '5s';

-- A row is one registration of an e-mail: its id is the tenant's, should this registration be the first whose code is entered.
-- Registrations of an e-mail that has an owner are kept as well, with a code that opens nothing: so that neither an answer nor
-- its time tells whether the e-mail is known.
CREATE TABLE pending_registrations (
    id              uuid PRIMARY KEY,
    email           text NOT NULL CHECK (email = lower(email)),
    name            text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    password_hash   text NOT NULL, -- '' once verified: the tenant has it then
    code_hash       bytea,         -- sealed; null once verified
    code_expires_at timestamptz NOT NULL,
    code_tries      integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL
);
CREATE INDEX pending_registrations_email ON pending_registrations (email, created_at DESC);
CREATE INDEX pending_registrations_age ON pending_registrations (created_at);

-- A tenant exists from its verification on. Those that wait have codes that end within ten minutes: they register again. A
-- registration at a process of the version before is refused from here on; its logins go on, and so the columns that they read
-- (code_hash, code_expires_at, code_tries, claim_hash) stay, unused.
DELETE FROM tenants WHERE email_verified_at IS NULL;
ALTER TABLE tenants ALTER COLUMN email_verified_at SET NOT NULL;
UPDATE tenants SET claim_hash = '' WHERE claim_hash <> '';
