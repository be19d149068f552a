-- Passwords are changed and reset, sessions are ended, and the owner's networks are known.
-- +goose Up
SET lock_timeout = '5s';

-- An ended session stays until it would have expired, so that a tenant that is suspended is told so, and opens nothing.
ALTER TABLE sessions ADD COLUMN ended_at timestamptz;

-- A row is a mailed code that resets a password and was not used yet; the code itself is nowhere. A row is written for an e-mail that
-- nobody has, too: so that the time of the answer tells nothing.
CREATE TABLE password_resets (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    email      text NOT NULL CHECK (email = lower(email)),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX password_resets_email ON password_resets (email);
CREATE INDEX password_resets_expiry ON password_resets (expires_at);

-- Networks (an IPv4 address, or an IPv6 /64) from which the owner of an e-mail has logged in. Guesses from elsewhere do not use up
-- the tries of these.
CREATE TABLE known_networks (
    email   text NOT NULL CHECK (email = lower(email)),
    network text NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (email, network)
);
