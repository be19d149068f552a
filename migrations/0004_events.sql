-- Events from the bank, stored before they are answered; recalls of payments; and the table of
-- pending work.
-- +goose Up

-- Partitioned by the time in the ids (package partition). No index of it is unique but the id's:
-- see event_keys. No foreign key, for the reason given at ledger_entries. Columns of a fixed width
-- of 8 or 4 bytes stand first here, and in the other tables that each payment writes: between
-- texts, Postgres fills up to them.
CREATE TABLE inbound_events (
    id               uuid PRIMARY KEY,
    received_at      timestamptz NOT NULL,
    processed_at     timestamptz,
    occurred_at      timestamptz,
    tenant_id        uuid,
    account_id       uuid,
    attempt_count    integer NOT NULL DEFAULT 0,
    misses           integer NOT NULL DEFAULT 0,
    retry_count      integer NOT NULL DEFAULT 0,
    source           text NOT NULL CHECK (source IN ('webhook', 'reconciliation', 'replacement')),
    signature_valid  boolean NOT NULL,
    authentic        boolean NOT NULL,
    request_id       text NOT NULL,
    provider_txn_ref text NOT NULL,
    session_id       text NOT NULL DEFAULT '',
    event_type       text NOT NULL,
    status           text NOT NULL CHECK (status IN ('received', 'processed', 'ignored', 'failed')),
    category         text NOT NULL DEFAULT ''
        CHECK (category IN ('', 'payment', 'misdirected', 'sig_invalid', 'non_payment_event', 'processing_error')),
    error_message    text NOT NULL DEFAULT '',
    amount           naira,
    fee              naira,
    currency         text NOT NULL DEFAULT '',
    alias            text NOT NULL DEFAULT '',
    alias_number     text NOT NULL DEFAULT '',
    sender_name      text NOT NULL DEFAULT '',
    sender_bank      text NOT NULL DEFAULT '',
    narration        text NOT NULL DEFAULT '',
    digest           bytea NOT NULL CHECK (octet_length(digest) >= 16),
    look_alike_of    uuid,
    replaces         uuid,
    policy           text CHECK (policy IN ('hold', 'refund')),
    split            boolean,
    last_error       text NOT NULL DEFAULT '',
    traceparent      text NOT NULL DEFAULT '',
    misdirected      boolean NOT NULL GENERATED ALWAYS AS (category = 'misdirected') STORED,
    forged           boolean NOT NULL GENERATED ALWAYS AS (category = 'sig_invalid') STORED,
    unposted         boolean NOT NULL GENERATED ALWAYS AS (authentic AND status = 'failed') STORED,
    CHECK ((category = 'payment') = (status = 'processed')),
    CHECK (status <> 'processed' OR (account_id IS NOT NULL AND amount IS NOT NULL AND processed_at IS NOT NULL)),
    CHECK (NOT (category = 'sig_invalid' AND authentic)),
    CONSTRAINT inbound_events_replaces CHECK ((source = 'replacement') = (replaces IS NOT NULL))
) PARTITION BY RANGE (id);
-- fillfactor: an event is posted and confirmed, and each of these updates should stay on its page.
-- For vacuum see ledger_entries.
CREATE TABLE inbound_events_later PARTITION OF inbound_events FOR VALUES FROM (MINVALUE) TO (MAXVALUE)
    WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- By columns that posting leaves as they are, unlike status and category: so that its update stays
-- HOT (see ledger_entries).
CREATE INDEX inbound_events_forged ON inbound_events (received_at) WHERE forged;
CREATE INDEX inbound_events_misdirected ON inbound_events (id) WHERE misdirected;
-- Payments that the bank took back, or says have failed. Each reconciliation reads the last ones,
-- for those of them that are misdirected.
CREATE INDEX inbound_events_reversals ON inbound_events (received_at) WHERE event_type IN ('payment_reversal', 'payment_failed') AND authentic;
-- Payments that the bank has and the books do not. They are few.
CREATE INDEX inbound_events_unposted ON inbound_events (id) WHERE unposted;
-- The payments of a window of reconciliation. Events are stored about when payments are made, so a
-- few hundred bytes do here what a B-tree of all events would.
CREATE INDEX inbound_events_occurred ON inbound_events USING brin (occurred_at) WITH (autosummarize = on);
COMMENT ON TABLE inbound_events IS 'Events from the bank, stored before they are answered. Most are payments. Forged ones are kept for a while.';
COMMENT ON COLUMN inbound_events.source IS
    'the bank''s webhook; its transaction list, where no webhook came; or a replacement for a payment whose credit was wrongly reversed';
COMMENT ON COLUMN inbound_events.authentic IS 'takes part in uniqueness: a forged event must not block a real one';
COMMENT ON COLUMN inbound_events.provider_txn_ref IS 'the bank''s transaction id';
COMMENT ON COLUMN inbound_events.session_id IS 'the interbank switch''s id of the transfer, where known';
COMMENT ON COLUMN inbound_events.category IS 'why the event has its status';
COMMENT ON COLUMN inbound_events.unposted IS 'authentic and failed: the bank has the payment and the books do not';
COMMENT ON COLUMN inbound_events.amount IS 'gross; NULL where the event is not a payment, like the other fields that posting needs';
COMMENT ON COLUMN inbound_events.alias IS 'the account''s reference at the bank';
COMMENT ON COLUMN inbound_events.alias_number IS 'the account number that was paid to';
COMMENT ON COLUMN inbound_events.occurred_at IS 'when the payment was made, by the bank''s clock';
COMMENT ON COLUMN inbound_events.digest IS
    'the first half of the SHA-256 of the fields that posting needs: the same id with another digest is not the same payment';
COMMENT ON COLUMN inbound_events.account_id IS 'set when posted, as is tenant_id';
COMMENT ON COLUMN inbound_events.look_alike_of IS
    'the event that this one may repeat under another transaction id; not posted until that is decided';
COMMENT ON COLUMN inbound_events.replaces IS 'the event that this one stands in for; request_id is made from it, so there is at most one';
COMMENT ON COLUMN inbound_events.policy IS 'what the account''s policy said when it was posted; NULL: accept';
COMMENT ON COLUMN inbound_events.split IS 'true: it is shared out once it is confirmed (ledger_entries.split)';
COMMENT ON COLUMN inbound_events.attempt_count IS 'questions to the bank';
COMMENT ON COLUMN inbound_events.misses IS 'answers that the bank does not know the payment';
COMMENT ON COLUMN inbound_events.traceparent IS 'W3C trace context of the step that stored the row; empty if not traced';

-- The bodies stand by themselves: an event's row is updated when it is posted and confirmed, and
-- its page needs space for the next version; a body never changes, and goes to the archive by its
-- age.
CREATE TABLE event_bodies (
    event_id uuid PRIMARY KEY,
    body     bytea NOT NULL
) PARTITION BY RANGE (event_id);
CREATE TABLE event_bodies_later PARTITION OF event_bodies FOR VALUES FROM (MINVALUE) TO (MAXVALUE)
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
COMMENT ON TABLE event_bodies IS 'The bytes of each event as they came: the evidence, which nothing that decides about money reads.';
COMMENT ON COLUMN event_bodies.body IS 'the bytes, or what internal/compact has made shorter (a byte below 32 comes first); ajo events show prints them';
-- +goose StatementBegin
CREATE FUNCTION event_body_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (SELECT FROM inbound_events WHERE id = OLD.event_id AND authentic) THEN
        RAISE EXCEPTION 'event body %: neither changed nor removed', OLD.event_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_bodies_kept BEFORE UPDATE OR DELETE ON event_bodies FOR EACH ROW EXECUTE FUNCTION event_body_kept();

-- Whoever sends the same again is found by these keys, in whichever partition its event is. The ids
-- are random, so that nearly each insert touches another page of an index: a narrow one has few.
CREATE FUNCTION event_key(text) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    RETURN encode(substr(sha256(convert_to($1, 'UTF8')), 1, 16), 'hex')::uuid;
CREATE TABLE event_keys (
    request     uuid NOT NULL,
    transaction uuid,
    event_id    uuid NOT NULL,
    event_type  text NOT NULL
);
CREATE UNIQUE INDEX event_keys_request ON event_keys (request);
CREATE UNIQUE INDEX event_keys_transaction ON event_keys (transaction, event_type);
COMMENT ON TABLE event_keys IS
    'What makes an authentic event the only one: its request id, and its transaction with its type. Stored before the event, in the same statement.';
COMMENT ON COLUMN event_keys.request IS 'event_key(request_id): the first half of its SHA-256';
COMMENT ON COLUMN event_keys.transaction IS 'event_key(provider_txn_ref); empty where the event names no transaction';
CREATE TRIGGER event_keys_append_only BEFORE UPDATE OR DELETE ON event_keys FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- The payments of the bank's list, by what they share with an event that comes later. They are few,
-- and one look-up finds those of all partitions.
CREATE TABLE listed_payments (
    event_id     uuid PRIMARY KEY,
    alias_number text NOT NULL,
    amount       naira,
    occurred_at  timestamptz
);
CREATE INDEX listed_payments_alike ON listed_payments (alias_number, amount, occurred_at);
COMMENT ON TABLE listed_payments IS 'The payments that a reconciliation found in the bank''s list, as their events have them.';

-- A replacement has another type than the payment, so that the keys admit both; of the two, one
-- credit counts.
-- +goose StatementBegin
CREATE FUNCTION inbound_event_replaces() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM event_keys k JOIN ledger_entries l ON l.transaction_group_id = k.event_id AND l.direction = 'credit' AND l.reversal_of IS NULL
        WHERE k.transaction = event_key(nullif(NEW.provider_txn_ref, '')) AND l.status <> 'reversed') THEN
        RAISE EXCEPTION 'inbound event %: another credit of transaction % counts', NEW.id, NEW.provider_txn_ref USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER inbound_events_replaces BEFORE INSERT ON inbound_events FOR EACH ROW
    WHEN (NEW.replaces IS NOT NULL) EXECUTE FUNCTION inbound_event_replaces();
-- After the update, and without a call for the everyday move: see the ledger's guards.
CREATE TRIGGER inbound_events_status AFTER UPDATE ON inbound_events FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'received' AND NEW.status = 'processed'))
    EXECUTE FUNCTION check_move('status', 'received>processed', 'received>failed', 'failed>processed');
CREATE TRIGGER inbound_events_kept BEFORE DELETE ON inbound_events FOR EACH ROW WHEN (OLD.authentic) EXECUTE FUNCTION refuse_change();

CREATE TABLE confirm_lists (
    second       timestamptz PRIMARY KEY,
    leased_until timestamptz NOT NULL,
    read_at      timestamptz
);
COMMENT ON TABLE confirm_lists IS
    'Seconds of which a worker reads the bank''s list, to confirm their payments for all workers, or has read it.';
COMMENT ON COLUMN confirm_lists.leased_until IS 'until then the others leave it to that worker';
COMMENT ON COLUMN confirm_lists.read_at IS 'from then on, what still waits is asked about by its id';

CREATE TABLE recalls (
    event_id      uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    account_id    uuid NOT NULL,
    source        text NOT NULL CHECK (source IN ('event', 'reconciliation', 'operator')),
    status        text NOT NULL CHECK (status IN ('open', 'reversed', 'watched', 'kept')),
    held          naira NOT NULL CHECK (held >= 0),
    successes     integer NOT NULL DEFAULT 0,
    opened_count  integer NOT NULL DEFAULT 1,
    opened_at     timestamptz NOT NULL,
    closed_at     timestamptz,
    unpublished   boolean NOT NULL DEFAULT false,
    opened_before timestamptz[] NOT NULL DEFAULT '{}',
    kept_before   timestamptz[] NOT NULL DEFAULT '{}',
    CHECK ((status = 'open') = (closed_at IS NULL)),
    CHECK (status = 'open' OR held = 0),
    CHECK (status = 'open' OR NOT unpublished)
);
CREATE INDEX recalls_open ON recalls (opened_at) WHERE status IN ('open', 'watched');
-- What was kept at a time, which the next reconciliation asks the bank about.
CREATE INDEX recalls_kept ON recalls (closed_at) WHERE status = 'kept';
CREATE INDEX recalls_held ON recalls (account_id) WHERE held > 0;
COMMENT ON TABLE recalls IS
    'A payment that the bank may have taken back after it was confirmed. Until that is clear, its sum covers no settlement. One row per payment.';
COMMENT ON COLUMN recalls.event_id IS 'the payment''s inbound event';
COMMENT ON COLUMN recalls.source IS 'who reported it last';
COMMENT ON COLUMN recalls.status IS
    'open: the bank is being asked; reversed: the bank took the payment back; watched: its record says success, and it is asked on; kept: it still said so in the end';
COMMENT ON COLUMN recalls.closed_at IS 'when the hold ended, the bank took the payment back, or a person kept it';
COMMENT ON COLUMN recalls.held IS 'its part of ledger_balances.recall_held while it is open';
COMMENT ON COLUMN recalls.successes IS 'answers "success" since it was opened';
COMMENT ON COLUMN recalls.unpublished IS 'an operator has confirmed the payment meanwhile: payment.confirmed is published when it is clear that the bank did not take it back';
COMMENT ON COLUMN recalls.opened_before IS 'when it was opened the other times, which the payment''s timeline shows too';
COMMENT ON COLUMN recalls.kept_before IS 'the closed_at of each time that it ended as kept and was opened again';
COMMENT ON COLUMN recalls.opened_count IS 'a report that the bank''s record has contradicted does not open the recall again at once';
CREATE TRIGGER recalls_status AFTER UPDATE ON recalls FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_move('status', 'open>reversed', 'open>watched', 'open>kept', 'watched>reversed', 'watched>kept', 'watched>open', 'kept>open');
CREATE TRIGGER recalls_kept BEFORE DELETE ON recalls FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- CACHE: whoever schedules many rows takes many numbers. The index on due_at is the sweep's and the
-- metrics'; workers reach items by their key. It has no id: a plan that was made while the table
-- was empty would look ids up in it. Rows come and go with each payment, so that vacuum goes by
-- their number and not by their share.
CREATE SEQUENCE work_version CACHE 100;
CREATE TABLE work (
    kind         text NOT NULL CHECK (kind IN ('ingest', 'confirm', 'settle', 'deliver', 'expire')),
    id           uuid NOT NULL,
    tenant_id    uuid,
    due_at       timestamptz NOT NULL,
    leased_until timestamptz,
    expedited_at timestamptz,
    version      bigint NOT NULL DEFAULT nextval('work_version'),
    attempts     integer NOT NULL DEFAULT 0,
    last_error   text NOT NULL DEFAULT '',
    traceparent  text NOT NULL DEFAULT '',
    PRIMARY KEY (id, kind)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX work_due ON work (kind, due_at);
COMMENT ON TABLE work IS
    'Pending work: an item exists from the fact that makes it necessary until it is done. Workers claim items, and the sweep enqueues those that are overdue.';
COMMENT ON COLUMN work.id IS 'of the event (ingest, confirm), the transfer (settle), the delivery (deliver) or the account (expire)';
COMMENT ON COLUMN work.tenant_id IS 'NULL where it is not known: of an event that names no account';
COMMENT ON COLUMN work.leased_until IS 'until then nobody else claims it; NULL: nobody has it, or relies on the version alone';
COMMENT ON COLUMN work.expedited_at IS 'when it was to be done at once while somebody had it leased: it is given back due then; NULL: it was not';
COMMENT ON COLUMN work.version IS 'changes with each claim, and never comes twice: a result is recorded only if it is the one that was claimed';
COMMENT ON COLUMN work.attempts IS 'handlings in a row that failed unexpectedly; each waits twice as long as the one before';
COMMENT ON COLUMN work.last_error IS 'why the last of them failed';
COMMENT ON COLUMN work.traceparent IS 'W3C trace context of the step that scheduled it; empty if not traced';
