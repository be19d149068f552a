-- Tenants, and what lets a program or a person in: API keys, members, sessions, login links,
-- registrations, password resets; operators.
--
-- Each file is one capability. COMMENTs say what a table or column means, and docs/schema.md is
-- made from them; a "--" comment says why something is built as it is. The guards that several
-- capabilities share stand here, in the first file.
-- +goose Up

-- Of `ajo migrate`, like goose_db_version, which goose makes.
CREATE TABLE backfills (
    version    bigint PRIMARY KEY,
    last_key   text NOT NULL,
    row_count  bigint NOT NULL,
    updated_at timestamptz NOT NULL
);
COMMENT ON TABLE backfills IS 'How far a migration has come that changes the rows of a large table in slices.';
COMMENT ON COLUMN backfills.version IS 'the number of its file';
COMMENT ON COLUMN backfills.last_key IS 'of the last row that was looked at: a run that was killed goes on after it';

CREATE DOMAIN naira AS numeric
    CHECK (VALUE <> 'NaN' AND scale(VALUE) <= 2 AND abs(VALUE) < 1000000000000000000);
COMMENT ON DOMAIN naira IS
    'A sum of naira. numeric(p,2) would round 1.005 to 1.01, and numeric admits NaN; this refuses both.';

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is not allowed: its rows are kept as they are', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

-- The transition tables are in Go (internal/fsm) and, as a guard, here: the trigger's arguments are
-- the column and its allowed moves, as 'from>to'. A test tries each pair of states on both.
CREATE FUNCTION check_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was     text := to_jsonb(OLD) ->> TG_ARGV[0];
    becomes text := to_jsonb(NEW) ->> TG_ARGV[0];
BEGIN
    IF (was || '>' || becomes) = ANY (TG_ARGV) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '%: % may not move from % to %', TG_TABLE_NAME, TG_ARGV[0], was, becomes USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd

CREATE TABLE tenants (
    id                            uuid PRIMARY KEY,
    name                          text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    email                         text NOT NULL UNIQUE CHECK (email = lower(email)),
    email_verified_at             timestamptz NOT NULL,
    status                        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'closed')),
    operator                      boolean NOT NULL DEFAULT false,
    kyc_status                    text NOT NULL DEFAULT 'unverified' CHECK (kyc_status IN ('unverified', 'pending_review', 'verified')),
    business_type                 text CHECK (business_type IN ('sole_proprietor', 'registered_business', 'ngo', 'other')),
    cac_number                    text,
    webhook_url                   text NOT NULL DEFAULT '',
    webhook_secret                bytea,
    webhook_secret_previous       bytea,
    webhook_secret_previous_until timestamptz,
    webhook_events                text[] NOT NULL DEFAULT '{}'
        CHECK (webhook_events <@ '{payment.confirmed,payment.reversed,settlement.succeeded,settlement.failed,settlement.refunded}'::text[]),
    webhook_endpoints             smallint NOT NULL DEFAULT 0 CHECK (webhook_endpoints BETWEEN 0 AND 20),
    event_log                     boolean NOT NULL DEFAULT false,
    listening_until               timestamptz,
    payout_fee_by                 text NOT NULL DEFAULT 'platform' CHECK (payout_fee_by IN ('platform', 'tenant')),
    totp_required                 boolean NOT NULL DEFAULT false,
    payout_approvals              smallint NOT NULL DEFAULT 0 CHECK (payout_approvals BETWEEN 0 AND 10),
    approve_above                 naira CHECK (approve_above >= 0),
    approve_day_above             naira CHECK (approve_day_above >= 0),
    approval_hook                 text CHECK (approval_hook <> ''),
    beneficiary_wait              smallint NOT NULL DEFAULT 0 CHECK (beneficiary_wait BETWEEN 0 AND 720),
    created_at                    timestamptz NOT NULL,
    updated_at                    timestamptz NOT NULL,
    CHECK ((kyc_status = 'verified') <= (business_type IS NOT NULL)),
    CHECK ((payout_approvals > 0) = (approve_above IS NOT NULL OR approve_day_above IS NOT NULL)),
    CHECK (approval_hook IS NULL OR payout_approvals > 0),
    CHECK (beneficiary_wait = 0 OR approve_above IS NOT NULL)
);
COMMENT ON TABLE tenants IS 'A business that uses the service. It exists from the moment its e-mail address is verified.';
COMMENT ON COLUMN tenants.email IS 'its owner''s, and so a member''s';
COMMENT ON COLUMN tenants.operator IS 'may use the operator endpoints';
COMMENT ON COLUMN tenants.cac_number IS 'registration number at the Corporate Affairs Commission';
COMMENT ON COLUMN tenants.webhook_secret IS 'signing secret, sealed';
COMMENT ON COLUMN tenants.webhook_secret_previous IS 'the secret before it, sealed; signs too until webhook_secret_previous_until';
COMMENT ON COLUMN tenants.webhook_events IS 'event types the tenant chose in addition to payment.received';
COMMENT ON COLUMN tenants.event_log IS 'the log of events (GET /v1/events) has those too that go to no URL, as deliveries that are delivered from the start';
COMMENT ON COLUMN tenants.webhook_endpoints IS 'how many endpoints it has beside webhook_url; 0: its events are sent to that URL only, and webhook_endpoints is not read, unless event_log says so';
COMMENT ON COLUMN tenants.payout_fee_by IS 'who bears what the bank takes for a payout; operators set it, and it holds for what is accepted from then on';
COMMENT ON COLUMN tenants.totp_required IS 'its owner and those with the role finance need a second factor';
COMMENT ON COLUMN tenants.payout_approvals IS 'how many members must approve a payout above approve_above or approve_day_above; 0: none need approval';
COMMENT ON COLUMN tenants.approve_above IS 'of one payout; NULL: payouts of any sum go without';
COMMENT ON COLUMN tenants.approve_day_above IS 'of all payouts of a day in Lagos, with the one that is asked for';
COMMENT ON COLUMN tenants.approval_hook IS 'URL of the tenant''s own system, which is asked about each such payout; its yes is one of the approvals';
COMMENT ON COLUMN tenants.beneficiary_wait IS 'for so many hours a beneficiary must have been saved before a payout above approve_above goes to it, and none goes to other accounts; 0: no wait';
COMMENT ON COLUMN tenants.listening_until IS 'until then all events are also written to listen_events; NULL: never listened';
CREATE TRIGGER tenants_kyc BEFORE UPDATE ON tenants FOR EACH ROW WHEN (OLD.kyc_status IS DISTINCT FROM NEW.kyc_status)
    EXECUTE FUNCTION check_move('kyc_status', 'unverified>verified');

CREATE TABLE members (
    id                uuid PRIMARY KEY,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    email             text NOT NULL CHECK (email = lower(email)),
    name              text NOT NULL CHECK (char_length(name) <= 200),
    role              text NOT NULL CHECK (role IN ('owner', 'finance', 'developer', 'viewer')),
    password_hash     text,
    invite_hash       bytea UNIQUE CHECK (octet_length(invite_hash) = 32),
    invite_expires_at timestamptz,
    invited_at        timestamptz NOT NULL,
    joined_at         timestamptz,
    removed_at        timestamptz,
    totp_secret       bytea,
    totp_confirmed_at timestamptz,
    totp_last_step    bigint,
    mailed_until      timestamptz,
    UNIQUE (tenant_id, id),
    CHECK ((totp_secret IS NOT NULL) <= (password_hash IS NOT NULL)),
    CHECK ((totp_confirmed_at IS NOT NULL) <= (totp_secret IS NOT NULL)),
    CHECK ((totp_confirmed_at IS NULL) = (totp_last_step IS NULL)),
    CHECK ((password_hash IS NOT NULL) = (joined_at IS NOT NULL AND removed_at IS NULL)),
    CHECK ((invite_hash IS NOT NULL) = (joined_at IS NULL AND removed_at IS NULL)),
    CHECK ((invite_hash IS NULL) = (invite_expires_at IS NULL)),
    CHECK ((name = '') <= (joined_at IS NULL)),
    CHECK ((role = 'owner') <= (joined_at IS NOT NULL AND removed_at IS NULL))
);
-- An e-mail opens one tenant, so a login need not say which.
CREATE UNIQUE INDEX members_email ON members (email) WHERE joined_at IS NOT NULL AND removed_at IS NULL;
CREATE UNIQUE INDEX members_own_email ON members (tenant_id, email) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX members_owner ON members (tenant_id) WHERE role = 'owner';
COMMENT ON TABLE members IS 'A person who may log in for a tenant, or is invited to.';
COMMENT ON COLUMN members.name IS 'as the person gave it; empty until then';
COMMENT ON COLUMN members.role IS 'what the person may do; each tenant has one owner, who may do everything';
COMMENT ON COLUMN members.password_hash IS 'argon2id; only of those who have joined and are not removed';
COMMENT ON COLUMN members.invite_hash IS 'SHA-256 of the mailed code that accepts the invitation; the code itself is stored nowhere';
COMMENT ON COLUMN members.totp_secret IS 'of RFC 6238, sealed; a login asks for its codes once one was entered';
COMMENT ON COLUMN members.totp_confirmed_at IS 'when a code was entered for the first time';
COMMENT ON COLUMN members.totp_last_step IS 'the step of 30 seconds of the last code that was accepted: neither it nor an earlier one is accepted again';
COMMENT ON COLUMN members.mailed_until IS 'of payouts that await approval: those accepted until then the member was mailed about, or need not be';
COMMENT ON COLUMN members.joined_at IS 'when the invitation was accepted; the first owner''s: when the e-mail address was verified';

-- +goose StatementBegin
-- A tenant has an owner, whose e-mail address is the tenant's. Two owners are refused by
-- members_owner.
CREATE FUNCTION check_owner() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_tenant uuid;
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        of_tenant := NEW.id;
    ELSE
        of_tenant := OLD.tenant_id;
    END IF;
    IF NOT EXISTS (SELECT FROM members m JOIN tenants t ON t.id = m.tenant_id WHERE m.tenant_id = of_tenant AND m.role = 'owner' AND m.email = t.email) THEN
        RAISE EXCEPTION 'tenant % needs an owner who has its e-mail address', of_tenant USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER tenants_owner AFTER INSERT OR UPDATE OF email ON tenants DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_owner();
CREATE CONSTRAINT TRIGGER members_owner_stays AFTER UPDATE OR DELETE ON members DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.role = 'owner') EXECUTE FUNCTION check_owner();
CREATE TRIGGER members_unchanged BEFORE UPDATE ON members FOR EACH ROW WHEN (
    (OLD.id, OLD.tenant_id, OLD.email, OLD.invited_at) IS DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.email, NEW.invited_at)
    OR OLD.joined_at IS NOT NULL AND OLD.joined_at IS DISTINCT FROM NEW.joined_at
    OR OLD.removed_at IS NOT NULL
) EXECUTE FUNCTION refuse_change();

CREATE TABLE api_keys (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    main           boolean NOT NULL,
    name           text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
    hash           bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    suffix         text NOT NULL,
    scopes         text[] CHECK (cardinality(scopes) > 0),
    networks       cidr[] NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL,
    rotated_at     timestamptz,
    expires_at     timestamptz,
    revoked_at     timestamptz,
    last_used_at   timestamptz,
    last_used_from inet,
    CHECK (NOT main OR (scopes IS NULL AND networks = '{}' AND rotated_at IS NULL AND expires_at IS NULL)),
    CHECK (rotated_at IS NULL OR expires_at IS NOT NULL),
    CHECK (revoked_at IS NULL OR coalesce(expires_at <= revoked_at, false))
);
CREATE UNIQUE INDEX api_keys_main ON api_keys (tenant_id) WHERE main;
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
CREATE INDEX api_keys_expiry ON api_keys (expires_at);
COMMENT ON TABLE api_keys IS 'A key for the API. One that has ended never works again; its row stays for 90 days.';
COMMENT ON COLUMN api_keys.main IS 'the specification''s key, which rotate-key replaces: all scopes, from anywhere, for ever';
COMMENT ON COLUMN api_keys.hash IS 'SHA-256 of the key; the key itself is stored nowhere';
COMMENT ON COLUMN api_keys.suffix IS 'last characters of the key, to recognise it by';
COMMENT ON COLUMN api_keys.scopes IS 'what it may be used for; NULL: everything, also what is added later';
COMMENT ON COLUMN api_keys.networks IS 'from where it may be used; empty: from anywhere';
COMMENT ON COLUMN api_keys.rotated_at IS 'when another key took its place; it works beside that one until expires_at';
COMMENT ON COLUMN api_keys.expires_at IS 'from then on it is refused; NULL: never';
COMMENT ON COLUMN api_keys.last_used_at IS 'the last use, to a minute';
-- Nobody gets more by a key than it was made for: neither rights nor time.
CREATE TRIGGER api_keys_unchanged BEFORE UPDATE ON api_keys FOR EACH ROW WHEN (
    (OLD.id, OLD.tenant_id, OLD.name, OLD.hash, OLD.suffix, OLD.created_at) IS DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.name, NEW.hash, NEW.suffix, NEW.created_at)
    OR OLD.scopes IS DISTINCT FROM NEW.scopes OR OLD.networks IS DISTINCT FROM NEW.networks
    OR NEW.main AND NOT OLD.main
    OR OLD.rotated_at IS NOT NULL AND OLD.rotated_at IS DISTINCT FROM NEW.rotated_at
    OR OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
    OR OLD.revoked_at IS NOT NULL AND OLD.revoked_at IS DISTINCT FROM NEW.revoked_at
) EXECUTE FUNCTION refuse_change();

CREATE TABLE recovery_codes (
    hash      bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    member_id uuid NOT NULL,
    FOREIGN KEY (tenant_id, member_id) REFERENCES members (tenant_id, id)
);
CREATE INDEX recovery_codes_member ON recovery_codes (member_id);
COMMENT ON TABLE recovery_codes IS 'An unused code that a member may enter in the place of one of the authenticator.';
COMMENT ON COLUMN recovery_codes.hash IS 'SHA-256 of the code; the code itself is stored nowhere';

CREATE TABLE sessions (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    id         uuid NOT NULL UNIQUE,
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    member_id  uuid NOT NULL,
    address    inet,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    FOREIGN KEY (tenant_id, member_id) REFERENCES members (tenant_id, id)
);
CREATE INDEX sessions_tenant ON sessions (tenant_id, id);
CREATE INDEX sessions_expiry ON sessions (expires_at);
COMMENT ON TABLE sessions IS 'A login of a member to the dashboard.';
COMMENT ON COLUMN sessions.address IS 'from where it was opened';
COMMENT ON COLUMN sessions.token_hash IS 'SHA-256 of the token; the token itself is stored nowhere';
COMMENT ON COLUMN sessions.ended_at IS
    'when it was ended; the row stays until it would have expired, so that the answer to a suspended tenant says why';

CREATE TABLE login_links (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX login_links_expiry ON login_links (expires_at);
COMMENT ON TABLE login_links IS 'An unused link that opens one session of the owner, made by an operator (ajo tenant login-link).';
COMMENT ON COLUMN login_links.token_hash IS 'SHA-256 of the link''s token; the token itself is stored nowhere';

CREATE TABLE pending_registrations (
    id              uuid PRIMARY KEY,
    email           text NOT NULL CHECK (email = lower(email)),
    name            text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    password_hash   text NOT NULL,
    code_hash       bytea,
    code_expires_at timestamptz NOT NULL,
    code_tries      integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL
);
CREATE INDEX pending_registrations_email ON pending_registrations (email, created_at DESC);
CREATE INDEX pending_registrations_age ON pending_registrations (created_at);
COMMENT ON TABLE pending_registrations IS
    'A registration that waits for its e-mailed code. A known e-mail gets a row too, with a code that opens nothing, so that nothing reveals that it is known.';
COMMENT ON COLUMN pending_registrations.id IS 'becomes the tenant''s id if this code is the first to be entered';
COMMENT ON COLUMN pending_registrations.password_hash IS 'argon2id; empty once verified, since the tenant''s owner has it then';
COMMENT ON COLUMN pending_registrations.code_hash IS 'sealed hash of the code; NULL once verified';
COMMENT ON COLUMN pending_registrations.code_tries IS 'wrong codes entered so far';

CREATE TABLE password_resets (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    email      text NOT NULL CHECK (email = lower(email)),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX password_resets_email ON password_resets (email);
CREATE INDEX password_resets_expiry ON password_resets (expires_at);
COMMENT ON TABLE password_resets IS
    'An unused, e-mailed code that resets a password. An unknown e-mail gets a row too, so that the response time reveals nothing.';
COMMENT ON COLUMN password_resets.token_hash IS 'SHA-256 of the code; the code itself is stored nowhere';

CREATE TABLE known_networks (
    email   text NOT NULL CHECK (email = lower(email)),
    network text NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (email, network)
);
COMMENT ON TABLE known_networks IS
    'A network from which the owner of an e-mail has logged in. Password guesses from other networks do not use up its tries.';
COMMENT ON COLUMN known_networks.network IS 'an IPv4 address or an IPv6 /64';

CREATE TABLE operators (
    id                uuid PRIMARY KEY,
    name              text NOT NULL CHECK (name ~ '^[a-z][a-z0-9._-]{0,39}$'),
    role              text NOT NULL CHECK (role IN ('viewer', 'operator')),
    password_hash     text,
    totp_secret       bytea,
    totp_confirmed_at timestamptz,
    totp_last_step    bigint,
    setup_hash        bytea CHECK (octet_length(setup_hash) = 32),
    setup_expires_at  timestamptz,
    created_at        timestamptz NOT NULL,
    removed_at        timestamptz,
    CHECK ((password_hash IS NULL) = (totp_secret IS NULL)),
    CHECK ((totp_confirmed_at IS NOT NULL) <= (totp_secret IS NOT NULL)),
    CHECK ((totp_confirmed_at IS NULL) = (totp_last_step IS NULL)),
    CHECK ((setup_hash IS NULL) = (setup_expires_at IS NULL)),
    CHECK ((setup_hash IS NOT NULL) <= (totp_confirmed_at IS NULL)),
    CHECK (removed_at IS NULL OR password_hash IS NULL AND setup_hash IS NULL)
);
-- The name of one who was removed may be given again: the audit log says when.
CREATE UNIQUE INDEX operators_name ON operators (name) WHERE removed_at IS NULL;
COMMENT ON TABLE operators IS 'A person who may log in to the console on the operations port. Rows stay: the audit log names them.';
COMMENT ON COLUMN operators.name IS 'what the audit log calls the person: console:<name>';
COMMENT ON COLUMN operators.role IS 'viewer: sees everything, changes nothing; operator: does what the command line does';
COMMENT ON COLUMN operators.password_hash IS 'argon2id';
COMMENT ON COLUMN operators.totp_secret IS 'of RFC 6238, sealed; each login takes a code of it';
COMMENT ON COLUMN operators.totp_confirmed_at IS 'the first login: from then on the set-up code is void';
COMMENT ON COLUMN operators.totp_last_step IS 'the step of 30 seconds of the last code that was accepted: neither it nor an earlier one is accepted again';
COMMENT ON COLUMN operators.setup_hash IS 'SHA-256 of the code by which the person chooses a password and gets the second factor; the code itself is stored nowhere';
CREATE TRIGGER operators_unchanged BEFORE UPDATE ON operators FOR EACH ROW WHEN (
    (OLD.id, OLD.name, OLD.role, OLD.created_at) IS DISTINCT FROM (NEW.id, NEW.name, NEW.role, NEW.created_at) OR OLD.removed_at IS NOT NULL
) EXECUTE FUNCTION refuse_change();

CREATE TABLE operator_sessions (
    token_hash  bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    operator_id uuid NOT NULL REFERENCES operators (id),
    address     inet,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX operator_sessions_operator ON operator_sessions (operator_id);
CREATE INDEX operator_sessions_expiry ON operator_sessions (expires_at);
COMMENT ON TABLE operator_sessions IS 'A login of an operator to the console.';
COMMENT ON COLUMN operator_sessions.token_hash IS 'SHA-256 of the token; the token itself is stored nowhere';
COMMENT ON COLUMN operator_sessions.address IS 'from where it was opened';
