-- Our books compared with the bank's list, the record of what operators did, and the archive.
-- +goose Up

CREATE TABLE reconciliations (
    id              uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('periodic', 'again', 'daily', 'manual')),
    window_from     timestamptz NOT NULL,
    window_to       timestamptz NOT NULL CHECK (window_to > window_from),
    status          text NOT NULL CHECK (status IN ('waiting', 'running', 'finished', 'failed')),
    leased_until    timestamptz,
    due_at          timestamptz NOT NULL DEFAULT now(),
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    read_to         timestamptz CHECK (read_to BETWEEN window_from AND window_to),
    partial         jsonb,
    bank_count      integer,
    bank_amount     naira,
    bank_fee        naira,
    books_count     integer,
    books_amount    naira,
    books_fee       naira,
    stored_count    integer,
    exception_count integer,
    report          jsonb,
    last_error      text NOT NULL DEFAULT '',
    failing_since   timestamptz,
    CHECK ((status IN ('waiting', 'running')) = (finished_at IS NULL)),
    CHECK ((read_to IS NULL) = (partial IS NULL)),
    CHECK ((status = 'finished') = (report IS NOT NULL))
);
-- One run of a kind at a time, and one of a window, however many workers there are.
CREATE UNIQUE INDEX reconciliations_running ON reconciliations (kind) WHERE status = 'running' AND kind IN ('periodic', 'daily');
CREATE UNIQUE INDEX reconciliations_window ON reconciliations (kind, window_from, window_to) WHERE kind IN ('periodic', 'daily');
CREATE INDEX reconciliations_read ON reconciliations (kind, window_to) WHERE status = 'finished';
CREATE INDEX reconciliations_open ON reconciliations (kind, window_from) WHERE status <> 'finished';
COMMENT ON TABLE reconciliations IS 'One comparison of the books with the bank''s transaction list: its claim, and its report.';
COMMENT ON COLUMN reconciliations.kind IS 'periodic; again: a time in which the bank''s list was behind, once more; daily: a look back, once a day; manual: by an operator, or of a time that was yet to come';
COMMENT ON COLUMN reconciliations.leased_until IS 'until then one worker runs it, or it waits';
COMMENT ON COLUMN reconciliations.due_at IS 'when it was begun first, or its wait is over; each repetition has its own started_at';
COMMENT ON COLUMN reconciliations.read_to IS 'how far an unfinished run has come: whoever takes it over goes on there';
COMMENT ON COLUMN reconciliations.partial IS 'its report so far';
COMMENT ON COLUMN reconciliations.report IS 'NULL, like its counts and sums, until it is finished: a list not read to its end says nothing';
COMMENT ON COLUMN reconciliations.failing_since IS 'since when the bank''s list cannot be read where the run has come to';
COMMENT ON COLUMN reconciliations.stored_count IS 'payments that were found in the list alone and stored';

CREATE TABLE reconcile_items (
    id           uuid NOT NULL UNIQUE,
    kind         text NOT NULL CHECK (kind IN ('payment', 'payout', 'list')),
    ref          text NOT NULL CHECK (ref <> ''),
    exception    jsonb,
    effect       naira NOT NULL DEFAULT 0,
    since        timestamptz,
    found_at     timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    ask_count    integer NOT NULL DEFAULT 0,
    dismissed_at timestamptz,
    PRIMARY KEY (kind, ref),
    CHECK (dismissed_at IS NULL OR exception IS NOT NULL),
    CHECK (kind <> 'list' OR exception IS NOT NULL)
);
COMMENT ON TABLE reconcile_items IS
    'A payment or payout on which bank and books disagree. The bank is asked again until they agree; then the row is deleted. Or a part of the bank''s list that no run could read.';
COMMENT ON COLUMN reconcile_items.ref IS 'the bank''s transaction id of a payment, the merchantTxRef of a payout; of the list a time, or a hash of a record without a usable id';
COMMENT ON COLUMN reconcile_items.exception IS 'what was last reported; NULL while the bank''s record is merely not final yet';
COMMENT ON COLUMN reconcile_items.effect IS 'how much more the bank''s wallet has for it than the books, from "since" on';
COMMENT ON COLUMN reconcile_items.due_at IS 'when the bank is asked next';
COMMENT ON COLUMN reconcile_items.dismissed_at IS
    'an operator has taken note: it is not reported again unless it changes, but is still asked about';

CREATE TABLE audit_log (
    id        uuid PRIMARY KEY,
    at        timestamptz NOT NULL,
    actor     text NOT NULL,
    action    text NOT NULL,
    target    text NOT NULL,
    reason    text NOT NULL,
    detail    jsonb NOT NULL DEFAULT '{}',
    tenant_id uuid REFERENCES tenants (id),
    address   inet
);
-- The last sign-ins with a wrong password, of which an hour has so many.
CREATE INDEX audit_log_refused ON audit_log (tenant_id, at) WHERE action = 'session.refused';
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id) WHERE tenant_id IS NOT NULL;
-- Whether a member has signed in before.
CREATE INDEX audit_log_sign_ins ON audit_log (tenant_id, actor) WHERE action = 'session.begin';
-- What is old enough to be removed. A line is written by hand, so one index more costs nothing.
CREATE INDEX audit_log_age ON audit_log (at);
-- The decisions on payments under review, which a reconciliation asks the bank about.
CREATE INDEX audit_log_reviews ON audit_log (at) WHERE action LIKE 'review.%';
COMMENT ON TABLE audit_log IS 'Who changed what by hand, and why. Append-only; lines may be removed after a year.';
COMMENT ON COLUMN audit_log.actor IS 'who: cli:<user> or console:<name> (an operator), operator-session:<e-mail>, session:<e-mail>, key:<id>, unknown, or a part of the service';
COMMENT ON COLUMN audit_log.reason IS 'why, where an operator did it; empty for what a tenant did';
COMMENT ON COLUMN audit_log.detail IS 'what the row alone would not show later; a tenant is shown before and after of it';
COMMENT ON COLUMN audit_log.tenant_id IS 'the tenant that sees the line; NULL: none';
COMMENT ON COLUMN audit_log.address IS 'from where, where a tenant or the console did it';
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log FOR EACH ROW WHEN (OLD.at > now() - interval '1 year') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE archives (
    partition    text PRIMARY KEY,
    table_name   text NOT NULL,
    from_id      uuid NOT NULL,
    to_id        uuid NOT NULL CHECK (to_id > from_id),
    status       text NOT NULL CHECK (status IN ('exporting', 'exported', 'archived', 'restored')),
    attempt      uuid,
    leased_until timestamptz,
    manifest     jsonb,
    last_error   text NOT NULL DEFAULT '',
    archived_at  timestamptz,
    restored_at  timestamptz,
    CHECK ((status = 'exporting') = (manifest IS NULL)),
    CHECK ((status IN ('archived', 'restored')) <= (archived_at IS NOT NULL))
);
COMMENT ON TABLE archives IS 'Partitions that are archived, are being archived, or were brought back. One row a partition, for ever.';
COMMENT ON COLUMN archives.from_id IS 'the least id of its range';
COMMENT ON COLUMN archives.to_id IS 'the least id behind its range';
COMMENT ON COLUMN archives.status IS
    'exporting: being written to the store; exported: written, not compared yet; archived: in the store alone; restored: in both';
COMMENT ON COLUMN archives.attempt IS 'whose objects these are; NULL: a row of the partition has changed since, and another attempt begins anew';
COMMENT ON COLUMN archives.leased_until IS 'until then one process works on it';
COMMENT ON COLUMN archives.manifest IS 'what the object in the store must contain, as its manifest says there';
CREATE TRIGGER archives_status AFTER UPDATE ON archives FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION check_move('status', 'exporting>exported', 'exported>exporting', 'exported>archived', 'archived>restored', 'restored>exporting');
CREATE TRIGGER archives_kept BEFORE DELETE ON archives FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- +goose StatementBegin
-- A row of a partition that is being archived has changed: what was exported of it does not count.
CREATE FUNCTION archive_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE archives SET status = 'exporting', attempt = NULL, leased_until = NULL, manifest = NULL
    WHERE partition = TG_TABLE_NAME AND attempt IS NOT NULL AND status IN ('exporting', 'exported');
    RETURN NULL;
END $$;

-- The archived partition that a row of the id would stand in; NULL: there is none.
CREATE FUNCTION archived_in(of_table text, id uuid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN a.to_id > id AND a.status = 'archived' THEN a.partition END
    FROM archives a WHERE a.table_name = of_table AND a.from_id <= id ORDER BY a.from_id DESC LIMIT 1
$$;
-- +goose StatementEnd
