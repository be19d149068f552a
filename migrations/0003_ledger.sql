-- The ledger: entries that never change but for their status, a running total for each account, and
-- sums by day. Only package ledger writes these tables.
-- +goose Up

-- The service's own accounts, beside those of tenants. Each is its own tenant in the tables of the
-- ledger (tenant_id = account_id), and a key of the last ones, so that it is locked last.
CREATE TABLE system_accounts (
    id   uuid PRIMARY KEY,
    name text NOT NULL UNIQUE,
    purpose text NOT NULL
);
COMMENT ON TABLE system_accounts IS 'The service''s own accounts, beside those of tenants.';
INSERT INTO system_accounts (id, name, purpose) VALUES
    ('ffffffff-0000-8000-8000-000000000001', 'provider_float', 'the wallet at the bank: the other side of all other accounts'),
    ('ffffffff-0000-8000-8000-000000000002', 'bank_fees', 'what the bank takes for payouts that the platform bears'),
    ('ffffffff-0000-8000-8000-000000000003', 'taxes', 'VAT and stamp duty that the platform bears'),
    ('ffffffff-0000-8000-8000-000000000004', 'platform_revenue', 'what the platform earns'),
    ('ffffffff-0000-8000-8000-000000000005', 'suspense', 'money whose owner is not known yet');

-- One row is both sides of a movement: the account in the given direction, and contra, a system
-- account, in the opposite one. So a movement cannot be half written, and payments do not all
-- update one system row.
--
-- No foreign keys: each would look an account up again that the transaction has just read. Nothing
-- can remove it, since its balance refers to it and is never deleted.
--
-- fillfactor: a page must have room for a second version of each of its rows, since neighbours are
-- confirmed in one transaction. An update that stays on the page and changes no indexed column
-- needs no new index entries (HOT); a column that stands in an index' condition counts as indexed,
-- so none names the status.
CREATE TABLE ledger_entries (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL,
    account_id           uuid NOT NULL,
    transaction_group_id uuid NOT NULL,
    seq                  bigint NOT NULL CHECK (seq > 0),
    created_at           timestamptz NOT NULL,
    confirmed_at         timestamptz,
    review_from_seq      bigint,
    review_to_seq        bigint,
    contra               text NOT NULL DEFAULT 'provider_float'
        CHECK (contra IN ('provider_float', 'bank_fees', 'taxes', 'platform_revenue', 'suspense')),
    direction            text NOT NULL CHECK (direction IN ('credit', 'debit')),
    amount               naira NOT NULL CHECK (amount > 0),
    fee                  naira NOT NULL DEFAULT 0 CHECK (fee >= 0),
    currency             text NOT NULL DEFAULT 'NGN' CHECK (currency = 'NGN'),
    status               text NOT NULL CHECK (status IN ('provisional', 'confirmed', 'reversed', 'needs_review')),
    narration            text NOT NULL DEFAULT '',
    provider_txn_ref     text NOT NULL DEFAULT '',
    transfer_ref         text,
    reversal_of          uuid REFERENCES ledger_entries (id),
    running_balance      naira NOT NULL,
    hash                 bytea,
    sender_name          text NOT NULL DEFAULT '',
    sender_bank          text NOT NULL DEFAULT '',
    record_account       text,
    record_bank_code     text,
    record_session       text,
    record_name          text,
    record_bank          text,
    kind                 text NOT NULL DEFAULT '' CHECK (kind IN ('', 'fee', 'suspense', 'move', 'book_transfer', 'platform_fee', 'split')),
    price_id             uuid CHECK (price_id IS NULL OR (direction = 'credit' AND kind = '' AND reversal_of IS NULL)),
    split                jsonb CHECK (split IS NULL OR (direction = 'credit' AND kind = '' AND reversal_of IS NULL)),
    reversed             boolean NOT NULL GENERATED ALWAYS AS (status = 'reversed') STORED,
    -- A debit under review would free money that may be on its way out. What the platform takes of
    -- a payment is under review with it.
    CHECK (NOT (direction = 'debit' AND status = 'needs_review' AND NOT (kind = 'platform_fee' AND transfer_ref IS NULL))),
    CHECK (reversal_of IS NULL OR status = 'reversed'),
    -- A system account's entry says what it is.
    CHECK (tenant_id <> account_id OR kind <> ''),
    CHECK (contra = 'provider_float' OR kind <> ''),
    CHECK (status <> 'needs_review' OR review_from_seq IS NOT NULL),
    CHECK (record_account IS NULL OR status IN ('confirmed', 'reversed'))
) WITH (fillfactor = 46);
CREATE UNIQUE INDEX ledger_entries_seq ON ledger_entries (account_id, seq);
-- Nothing is posted twice, and nothing is reversed twice.
CREATE UNIQUE INDEX ledger_entries_group ON ledger_entries (transaction_group_id, direction);
CREATE UNIQUE INDEX ledger_entries_reversal ON ledger_entries (reversal_of) WHERE reversal_of IS NOT NULL;
-- The reversals since a time, of which there may be millions in all.
CREATE INDEX ledger_entries_reversals ON ledger_entries (created_at) WHERE reversal_of IS NOT NULL;
CREATE INDEX ledger_entries_transfer ON ledger_entries (transfer_ref) WHERE transfer_ref IS NOT NULL;
-- The entries that are or were under review, which are few among all, and by where the review
-- begins or ends: an account may have many in the end. The last index has those that are under
-- review now.
CREATE INDEX ledger_entries_reviewed ON ledger_entries (account_id, review_from_seq) WHERE review_from_seq IS NOT NULL OR review_to_seq IS NOT NULL;
CREATE INDEX ledger_entries_review_ends ON ledger_entries (account_id, review_to_seq) WHERE review_to_seq IS NOT NULL;
CREATE INDEX ledger_entries_reviews ON ledger_entries (transaction_group_id, tenant_id) WHERE review_from_seq IS NOT NULL AND review_to_seq IS NULL;
-- What is rare among the payments, for the filters of a statement. An index names the reversed ones
-- by a column that a confirmation leaves as it is.
CREATE INDEX ledger_entries_debits ON ledger_entries (account_id, seq) WHERE direction = 'debit';
CREATE INDEX ledger_entries_reversed ON ledger_entries (account_id, seq) WHERE reversed;
-- A tenant's payments, newest first. Those of a batch have one time, so that their keys are stored
-- once; the id would double the index. The condition keeps other statements' plans as they are.
CREATE INDEX ledger_entries_payments ON ledger_entries (tenant_id, created_at) WHERE direction = 'credit' AND kind = '' AND reversal_of IS NULL;
-- The payments that are shared out, for the verification.
CREATE INDEX ledger_entries_split ON ledger_entries (id) WHERE split IS NOT NULL;
-- Statements of the system accounts: their own entries, and those that name them on the other side.
CREATE INDEX ledger_entries_system ON ledger_entries (account_id, id) WHERE tenant_id = account_id;
CREATE INDEX ledger_entries_contra ON ledger_entries (contra, id) WHERE contra <> 'provider_float';
COMMENT ON TABLE ledger_entries IS
    'One movement of money on an account. Only its status changes, and what belongs to that: when it was confirmed, its review, and who paid by the bank''s record.';
COMMENT ON COLUMN ledger_entries.contra IS 'the system account on the other side of the movement';
COMMENT ON COLUMN ledger_entries.kind IS
    'empty: a payment or a payout; fee: what the bank took for a payout; suspense: money whose owner is not known; move: made by an operator; book_transfer: between accounts of a tenant; split: a part of a payment, between such accounts; platform_fee: what the platform takes, and the VAT on it';
COMMENT ON COLUMN ledger_entries.price_id IS 'of a payment: the price that held for it; entries of kind platform_fee follow its status; NULL: none';
COMMENT ON COLUMN ledger_entries.split IS 'of a payment: how it is shared out once it is confirmed, as its account said when it was posted; NULL: not at all';
COMMENT ON COLUMN ledger_entries.seq IS 'position in the account, from 1 without a gap: the statement''s order and cursor';
COMMENT ON COLUMN ledger_entries.amount IS 'of a received payment: net, after the bank''s fee';
COMMENT ON COLUMN ledger_entries.fee IS 'the bank''s fee, outside the balance';
COMMENT ON COLUMN ledger_entries.status IS 'needs_review: not in the balance until a person decides';
COMMENT ON COLUMN ledger_entries.sender_name IS 'who paid, as the payment''s event says: an event may be archived, an entry is kept';
COMMENT ON COLUMN ledger_entries.record_account IS
    'the payer''s account number by the bank''s own record, written with the confirmation, as are the next four; NULL: no record has confirmed it';
COMMENT ON COLUMN ledger_entries.confirmed_at IS 'of a credit: when it was confirmed; written with that';
COMMENT ON COLUMN ledger_entries.record_session IS 'the interbank switch''s id of the payment';
COMMENT ON COLUMN ledger_entries.record_name IS 'NULL: the same as sender_name, as is record_bank for sender_bank';
COMMENT ON COLUMN ledger_entries.transaction_group_id IS 'one payment or one settlement: the event''s or the transfer''s id';
COMMENT ON COLUMN ledger_entries.transfer_ref IS 'the settlement''s merchantTxRef';
COMMENT ON COLUMN ledger_entries.reversal_of IS 'the entry that this one reverses';
COMMENT ON COLUMN ledger_entries.running_balance IS 'the account''s balance after this entry';
COMMENT ON COLUMN ledger_entries.review_from_seq IS 'the account''s last_seq when the entry went under review';
COMMENT ON COLUMN ledger_entries.review_to_seq IS 'the account''s last_seq when the review ended; between the two it is not in the balance';
COMMENT ON COLUMN ledger_entries.hash IS
    'SHA-256 over the hash of the account''s entry before, and this entry''s fields but for its status (ledger/chain.go)';

-- No index names the sums, and fillfactor leaves room: every posting updates its row in place.
CREATE TABLE ledger_balances (
    account_id          uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL,
    total_credits       naira NOT NULL DEFAULT 0 CHECK (total_credits >= 0),
    total_debits        naira NOT NULL DEFAULT 0 CHECK (total_debits >= 0),
    balance             numeric NOT NULL GENERATED ALWAYS AS (total_credits - total_debits) STORED,
    provisional_credits naira NOT NULL DEFAULT 0 CHECK (provisional_credits >= 0),
    last_seq            bigint NOT NULL DEFAULT 0,
    chain_head          bytea CHECK (octet_length(chain_head) = 32),
    last_at             timestamptz,
    -- NULL until an account's first recall, so that the rows of nearly all accounts stay short.
    recall_held         naira CHECK (recall_held >= 0),
    recall_reversed     naira CHECK (recall_reversed >= 0),
    recall_count        bigint,
    -- NULL until an account's first hold.
    held                naira CHECK (held >= 0),
    held_until          timestamptz,
    held_over           naira CHECK (held_over >= 0),
    held_provisional    naira CHECK (held_provisional >= 0)
) WITH (fillfactor = 50);
CREATE INDEX ledger_balances_tenant ON ledger_balances (tenant_id);
COMMENT ON TABLE ledger_balances IS
    'An account''s running totals. Its row is the lock of everything that happens to the account''s entries, but for the confirmation of a payout''s debit, which changes no total: the transfer''s item of work is the lock of that.';
COMMENT ON COLUMN ledger_balances.balance IS
    'an entry under review is in neither total; a reversed entry is in one and its reversal in the other';
COMMENT ON COLUMN ledger_balances.provisional_credits IS 'part of the balance that the bank has not confirmed, less what the platform takes of it; covers no settlement';
COMMENT ON COLUMN ledger_balances.last_seq IS 'the newest entry''s position';
COMMENT ON COLUMN ledger_balances.chain_head IS 'the newest entry''s hash; NULL while there is none';
COMMENT ON COLUMN ledger_balances.last_at IS 'the newest entry''s time; NULL while there is none. No entry is dated before the one before it';
COMMENT ON COLUMN ledger_balances.recall_held IS 'part of the balance that the bank may have taken back; covers no settlement';
COMMENT ON COLUMN ledger_balances.recall_reversed IS 'what the bank has taken back for good, in all';
COMMENT ON COLUMN ledger_balances.recall_count IS
    'changes of the two: a settlement found covered before such a change is not submitted after it';

COMMENT ON COLUMN ledger_balances.held IS 'sum of the open holds, as of their table: one whose time has come counts until it is closed';
COMMENT ON COLUMN ledger_balances.held_until IS 'the first end among the open holds: from then on their table is read; NULL: none ends by itself';

COMMENT ON COLUMN ledger_balances.held_over IS 'part of held: of payments, by limits of tiers and by accounts'' policies';
COMMENT ON COLUMN ledger_balances.held_provisional IS 'part of held_over: of credits that are provisional, and so cover nothing anyway';

-- Changed under the lock of the account's balance, with its held and held_until.
CREATE TABLE holds (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    account_id uuid NOT NULL,
    amount     naira NOT NULL CHECK (amount > 0),
    reason     text NOT NULL CHECK (reason <> ''),
    source     text NOT NULL DEFAULT 'tenant' CHECK (source IN ('tenant', 'limit', 'policy', 'refund', 'recall')),
    entry_id   uuid,
    status     text NOT NULL CHECK (status IN ('open', 'released', 'expired')),
    created_at timestamptz NOT NULL,
    until      timestamptz CHECK (until > created_at),
    ended_at   timestamptz,
    left_with  boolean NOT NULL DEFAULT false,
    CHECK ((status = 'open') = (ended_at IS NULL)),
    CHECK ((source = 'tenant') = (entry_id IS NULL)),
    CHECK (source = 'tenant' OR until IS NULL)
);
CREATE UNIQUE INDEX holds_entry ON holds (entry_id) WHERE status = 'open' AND entry_id IS NOT NULL;
-- What was ever held of a payment. The index above could not have the ended holds as well: a plan
-- that is made on empty tables would then look for an open hold among all that are open.
CREATE INDEX holds_payment ON holds (entry_id) WHERE entry_id IS NOT NULL;
CREATE INDEX holds_list ON holds (tenant_id, account_id, id);
CREATE INDEX holds_open ON holds (account_id, until) WHERE status = 'open';
-- What goes back to its senders, beside any number of other holds of an account.
CREATE INDEX holds_refund ON holds (account_id) WHERE status = 'open' AND source = 'refund';
-- What a customer's next tier releases, a part at a time.
CREATE INDEX holds_limit ON holds (account_id, entry_id) WHERE status = 'open' AND source = 'limit';
CREATE INDEX holds_decide ON holds (tenant_id, id) WHERE status = 'open' AND source = 'policy';
COMMENT ON TABLE holds IS
    'Money of an account that a tenant has set aside, that is above a limit of the customer''s tier, or that an account''s policy keeps: it is in the balance, and no settlement takes it.';
COMMENT ON COLUMN holds.entry_id IS 'the credit that it holds, or of which it holds a part; NULL: the tenant''s own hold';
COMMENT ON COLUMN holds.source IS
    'policy: until the tenant releases it; refund: until the payment is confirmed and goes back to its sender';
COMMENT ON COLUMN holds.left_with IS 'of a policy''s hold: it ended when its money left, with its credit, which it comes back with, or to its sender, or when another took its place; false: it was released';
COMMENT ON COLUMN holds.status IS 'open holds whose time has come count as expired; the next debit, hold or release of the account writes it';
COMMENT ON COLUMN holds.until IS 'when it ends by itself; NULL: when it is released';

CREATE TABLE split_parts (
    entry_id   uuid NOT NULL,
    account_id uuid NOT NULL,
    amount     naira NOT NULL CHECK (amount >= 0),
    group_id   uuid UNIQUE,
    taken_back naira NOT NULL DEFAULT 0 CHECK (taken_back BETWEEN 0 AND amount),
    PRIMARY KEY (entry_id, account_id)
);
COMMENT ON TABLE split_parts IS 'The parts that a confirmed payment was shared out in; together they are what it brought. Only taken_back ever changes, and only grows.';
COMMENT ON COLUMN split_parts.entry_id IS 'the payment''s credit';
COMMENT ON COLUMN split_parts.group_id IS 'of the two entries that moved the part; NULL: the account''s own';
COMMENT ON COLUMN split_parts.taken_back IS 'of a payment that the bank took back, maybe more than once: what the party has returned of it';

-- A posting looks whether its tenant has a row here: the table is as small as they are few.
CREATE TABLE tier_limits (
    tenant_id   uuid NOT NULL,
    tier        integer NOT NULL CHECK (tier IN (1, 2, 3)),
    starts_at   timestamptz NOT NULL,
    max_deposit naira CHECK (max_deposit >= 0),
    max_day     naira CHECK (max_day >= 0),
    max_balance naira CHECK (max_balance >= 0),
    created_at  timestamptz NOT NULL,
    actor       text NOT NULL CHECK (actor <> ''),
    reason      text NOT NULL CHECK (reason <> ''),
    PRIMARY KEY (tenant_id, tier, starts_at),
    CHECK (starts_at >= created_at)
);
COMMENT ON TABLE tier_limits IS
    'What may come in to an account of a tenant''s customer of a tier, from a time on and until the next row starts; what is above is posted and held. Append-only.';
COMMENT ON COLUMN tier_limits.starts_at IS 'created_at, if it was set for now: it stands at once, whatever a clock says';
COMMENT ON COLUMN tier_limits.max_deposit IS 'of one payment, after the bank''s fee; NULL: no limit';
COMMENT ON COLUMN tier_limits.max_day IS 'of an account''s payments of a day in Lagos';
COMMENT ON COLUMN tier_limits.max_balance IS 'of the balance, without what limits hold';
CREATE TRIGGER tier_limits_append_only BEFORE UPDATE OR DELETE ON tier_limits FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- A posting and a settle request look whether their tenant, or all zeros, has a row here. A price
-- is committed before it starts, so the time alone says which one holds.
CREATE TABLE prices (
    id         uuid NOT NULL UNIQUE,
    tenant_id  uuid NOT NULL,
    charged_on text NOT NULL CHECK (charged_on IN ('payment', 'payout', 'vat')),
    percent    numeric(7, 4) NOT NULL CHECK (percent BETWEEN 0 AND 100),
    flat       naira NOT NULL CHECK (flat >= 0),
    minimum    naira NOT NULL CHECK (minimum >= 0),
    cap        naira CHECK (cap >= minimum),
    as_listed  boolean NOT NULL DEFAULT false,
    valid_from timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    actor      text NOT NULL CHECK (actor <> ''),
    reason     text NOT NULL CHECK (reason <> ''),
    PRIMARY KEY (tenant_id, charged_on, valid_from),
    CHECK (valid_from >= created_at + interval '1 minute'),
    CHECK (charged_on <> 'vat' OR (tenant_id = '00000000-0000-0000-0000-000000000000' AND flat = 0 AND minimum = 0 AND cap IS NULL)),
    CHECK (NOT as_listed OR (tenant_id <> '00000000-0000-0000-0000-000000000000' AND percent = 0 AND flat = 0 AND minimum = 0 AND cap IS NULL))
);
COMMENT ON TABLE prices IS
    'What the platform takes, from a time on and until the next row of the same tenant starts; a tenant''s own goes before the list''s. Append-only.';
COMMENT ON COLUMN prices.tenant_id IS 'all zeros: the list, for all tenants without a price of their own';
COMMENT ON COLUMN prices.charged_on IS 'payment: its gross amount; payout: the amount of a settlement; vat: the fee of one of these';
COMMENT ON COLUMN prices.percent IS 'and flat, together; rounded half up to the kobo';
COMMENT ON COLUMN prices.cap IS 'NULL: none';
COMMENT ON COLUMN prices.as_listed IS 'the tenant has no price of its own from then on: the list''s holds';
CREATE TRIGGER prices_append_only BEFORE UPDATE OR DELETE ON prices FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Changed under the lock of the account's balance.
CREATE TABLE deposit_days (
    tenant_id  uuid NOT NULL,
    account_id uuid NOT NULL,
    day        date NOT NULL,
    allowed    naira NOT NULL CHECK (allowed >= 0),
    PRIMARY KEY (tenant_id, account_id, day)
) WITH (fillfactor = 50);
COMMENT ON TABLE deposit_days IS 'What limits of tiers have allowed of a day''s payments to an account, of tenants that have such limits.';
COMMENT ON COLUMN deposit_days.day IS 'day of the posting in Lagos (UTC+1, all the year)';

CREATE TABLE ledger_days (
    tenant_id uuid NOT NULL,
    day       date NOT NULL,
    slot      integer NOT NULL CHECK (slot BETWEEN 0 AND 31),
    money_in  naira NOT NULL,
    money_out naira NOT NULL,
    PRIMARY KEY (tenant_id, day, slot)
) WITH (fillfactor = 50);
COMMENT ON TABLE ledger_days IS
    'Sums by day of a tenant''s entries that are in its balance, so that an overview costs the same whatever the history.';
COMMENT ON COLUMN ledger_days.day IS 'day of the posting in Lagos (UTC+1, all the year)';
COMMENT ON COLUMN ledger_days.slot IS
    'a day is shared out over 32 rows; a transaction has one to itself, so that postings do not wait for each other; the day''s sum is theirs';
COMMENT ON COLUMN ledger_days.tenant_id IS
    'or a system account: its own entries, and from its side those that name it as contra';
COMMENT ON COLUMN ledger_days.money_in IS 'may be negative in one slot: an entry may leave the balance in another than the one in which it came';

-- No foreign key: it would lock and write each account's balance whenever its checkpoint moves.
CREATE TABLE ledger_checkpoints (
    account_id       uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    seq              bigint NOT NULL CHECK (seq > 0),
    hash             bytea NOT NULL CHECK (octet_length(hash) = 32),
    credits          naira NOT NULL,
    debits           naira NOT NULL,
    settled_credits  naira NOT NULL,
    settled_debits   naira NOT NULL,
    settled_reversed bigint NOT NULL,
    open_seqs        bigint[] NOT NULL,
    verified_at      timestamptz NOT NULL
);
COMMENT ON TABLE ledger_checkpoints IS
    'How far an account''s entries are verified (ajo ledger verify), so that the next run reads only what is newer. A row may be deleted: the account is then read from its first entry.';
COMMENT ON COLUMN ledger_checkpoints.seq IS 'the newest verified entry''s position';
COMMENT ON COLUMN ledger_checkpoints.hash IS 'that entry''s hash, which covers all entries up to it but for their status';
COMMENT ON COLUMN ledger_checkpoints.credits IS 'sum of all credits up to it, whatever their status';
COMMENT ON COLUMN ledger_checkpoints.debits IS 'sum of all debits up to it, whatever their status';
COMMENT ON COLUMN ledger_checkpoints.settled_credits IS 'sum of the confirmed credits among them that never were under review';
COMMENT ON COLUMN ledger_checkpoints.settled_debits IS 'sum of the confirmed debits among them';
COMMENT ON COLUMN ledger_checkpoints.settled_reversed IS 'number of the reversed entries among them that never were under review';
COMMENT ON COLUMN ledger_checkpoints.open_seqs IS
    'the positions of the provisional ones: the next run reads them again, as it does all that ever were under review';
COMMENT ON COLUMN ledger_checkpoints.verified_at IS 'the moment that was verified';

-- +goose StatementBegin
-- An entry begins as provisional, or as the reversal of a reversed entry; one that the bank's own
-- record, an operator or a book transfer makes (its kind is not empty) begins as confirmed.
CREATE FUNCTION ledger_entry_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    original ledger_entries;
BEGIN
    IF NEW.reversal_of IS NULL AND NEW.status = 'confirmed' AND NEW.kind <> '' THEN
        RETURN NEW;
    ELSIF NEW.reversal_of IS NULL THEN
        RAISE EXCEPTION 'a ledger entry begins as provisional, not %', NEW.status USING ERRCODE = 'check_violation';
    END IF;
    SELECT * INTO original FROM ledger_entries WHERE id = NEW.reversal_of;
    IF original.status <> 'reversed' OR original.account_id <> NEW.account_id OR original.amount <> NEW.amount
        OR original.direction = NEW.direction OR original.transaction_group_id <> NEW.transaction_group_id
        OR original.contra <> NEW.contra OR original.kind <> NEW.kind THEN
        RAISE EXCEPTION 'ledger entry % is not the reversal of %', NEW.id, NEW.reversal_of USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

-- An entry stays as it is: its status moves along the arguments, and the numbers of a review are
-- set with it, as is the time of the confirmation. What the bank's record says of the payer is
-- written once, with the confirmation or, of a payment that a person confirmed, later.
CREATE FUNCTION ledger_entry_unchanged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved ledger_entries := OLD;
BEGIN
    moved.status := NEW.status;
    moved.reversed := NEW.reversed;
    IF NEW.status = 'needs_review' AND OLD.review_from_seq IS NULL THEN
        moved.review_from_seq := NEW.review_from_seq;
    END IF;
    IF OLD.status = 'needs_review' AND OLD.review_to_seq IS NULL THEN
        moved.review_to_seq := NEW.review_to_seq;
    END IF;
    IF NEW.status = 'confirmed' AND OLD.status <> 'confirmed' THEN
        moved.confirmed_at := NEW.confirmed_at;
    END IF;
    IF NEW.status = 'confirmed' AND OLD.record_account IS NULL THEN
        moved.record_account := NEW.record_account;
        moved.record_bank_code := NEW.record_bank_code;
        moved.record_session := NEW.record_session;
        moved.record_name := NEW.record_name;
        moved.record_bank := NEW.record_bank;
    END IF;
    IF moved IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'ledger entry % is immutable but for its status', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = NEW.status AND OLD.record_account IS NULL AND NEW.record_account IS NOT NULL THEN
        RETURN NEW;
    END IF;
    IF NOT (OLD.status || '>' || NEW.status) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION 'ledger_entries: status may not move from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

-- A balance is an account's or a system account's. (Two tables: no foreign key can say it.)
CREATE FUNCTION ledger_balance_owned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant_id = NEW.account_id THEN
        PERFORM FROM system_accounts WHERE id = NEW.account_id;
    ELSE
        PERFORM FROM accounts WHERE id = NEW.account_id FOR KEY SHARE;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'ledger balance %: there is no such account', NEW.account_id USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;

-- An account that has a balance stays.
CREATE FUNCTION account_has_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM ledger_balances WHERE account_id = OLD.id) THEN
        RAISE EXCEPTION 'account % has a balance', OLD.id USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;

-- A confirmed credit is reversed only while a recall says so.
CREATE FUNCTION ledger_entry_recalled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM recalls WHERE event_id = NEW.transaction_group_id AND status <> 'kept') THEN
        RAISE EXCEPTION 'ledger entry %: a confirmed credit is reversed by a recall alone', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- On tables that every payment updates, guards run after the update and not before it: a BEFORE
-- trigger locks each row, and logs that, before its condition is even looked at. And their
-- conditions pass the everyday moves, so that the function is called for the others only.
CREATE TRIGGER ledger_entries_begin BEFORE INSERT ON ledger_entries FOR EACH ROW
    WHEN (NEW.status <> 'provisional' OR NEW.reversal_of IS NOT NULL) EXECUTE FUNCTION ledger_entry_begins();
-- The everyday move is a confirmation that changes nothing else but its time and what the bank's
-- record says of the payer, which it writes once. Whoever adds a column names it here too: a test
-- compares.
CREATE TRIGGER ledger_entries_unchanged AFTER UPDATE ON ledger_entries FOR EACH ROW
    WHEN (NOT (OLD.status = 'provisional' AND NEW.status = 'confirmed'
        AND (OLD.id, OLD.tenant_id, OLD.account_id, OLD.contra, OLD.seq, OLD.direction, OLD.amount, OLD.fee, OLD.currency, OLD.narration,
            OLD.provider_txn_ref, OLD.sender_name, OLD.sender_bank, OLD.kind, OLD.transaction_group_id, OLD.transfer_ref, OLD.reversal_of, OLD.running_balance, OLD.created_at,
            OLD.review_from_seq, OLD.review_to_seq, OLD.hash, OLD.price_id, OLD.split, OLD.reversed)
        IS NOT DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.account_id, NEW.contra, NEW.seq, NEW.direction, NEW.amount, NEW.fee, NEW.currency, NEW.narration,
            NEW.provider_txn_ref, NEW.sender_name, NEW.sender_bank, NEW.kind, NEW.transaction_group_id, NEW.transfer_ref, NEW.reversal_of, NEW.running_balance, NEW.created_at,
            NEW.review_from_seq, NEW.review_to_seq, NEW.hash, NEW.price_id, NEW.split, NEW.reversed)
        AND (OLD.confirmed_at IS NULL OR OLD.confirmed_at IS NOT DISTINCT FROM NEW.confirmed_at)
        AND (OLD.record_account IS NULL OR (OLD.record_account, OLD.record_bank_code, OLD.record_session, OLD.record_name, OLD.record_bank)
            IS NOT DISTINCT FROM (NEW.record_account, NEW.record_bank_code, NEW.record_session, NEW.record_name, NEW.record_bank))))
    EXECUTE FUNCTION ledger_entry_unchanged('provisional>confirmed', 'provisional>reversed', 'provisional>needs_review',
        'needs_review>confirmed', 'needs_review>reversed', 'confirmed>reversed');
CREATE TRIGGER ledger_entries_refund AFTER UPDATE ON ledger_entries FOR EACH ROW
    WHEN (OLD.status = 'confirmed' AND NEW.status = 'reversed' AND OLD.direction = 'credit' AND OLD.kind = '') EXECUTE FUNCTION ledger_entry_recalled();
CREATE TRIGGER ledger_entries_kept BEFORE DELETE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_balances_owned AFTER INSERT OR UPDATE OF account_id, tenant_id ON ledger_balances FOR EACH ROW EXECUTE FUNCTION ledger_balance_owned();
CREATE TRIGGER accounts_with_balance AFTER DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION account_has_balance();
CREATE TRIGGER system_accounts_fixed BEFORE INSERT OR UPDATE OR DELETE ON system_accounts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER holds_status AFTER UPDATE ON holds FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_move('status', 'open>released', 'open>expired');
CREATE TRIGGER holds_fixed AFTER UPDATE ON holds FOR EACH ROW
    WHEN ((OLD.id, OLD.tenant_id, OLD.account_id, OLD.amount, OLD.reason, OLD.source, OLD.entry_id, OLD.created_at, OLD.until)
        IS DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.account_id, NEW.amount, NEW.reason, NEW.source, NEW.entry_id, NEW.created_at, NEW.until)) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER split_parts_kept BEFORE DELETE ON split_parts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER split_parts_fixed AFTER UPDATE ON split_parts FOR EACH ROW
    WHEN ((OLD.entry_id, OLD.account_id, OLD.amount, OLD.group_id) IS DISTINCT FROM (NEW.entry_id, NEW.account_id, NEW.amount, NEW.group_id) OR NEW.taken_back < OLD.taken_back)
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER holds_kept BEFORE DELETE ON holds FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_balances_kept BEFORE DELETE ON ledger_balances FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Vacuumed by 2 % of new rows, not 20: a list reads only the index where pages are known to be
-- visible to all, and no vacuum has a tenth of a large table to read.
ALTER TABLE ledger_entries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
