-- Our books compared with the bank's list, and the record of what operators did.
-- +goose Up

CREATE TABLE reconciliations (
    id              uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('periodic', 'again', 'daily', 'manual')),
    window_from     timestamptz NOT NULL,
    window_to       timestamptz NOT NULL CHECK (window_to > window_from),
    status          text NOT NULL CHECK (status IN ('waiting', 'running', 'finished', 'failed')),
    leased_until    timestamptz,
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
COMMENT ON COLUMN reconciliations.kind IS 'periodic; again: a time in which the bank''s list was behind, once more; daily: a look back, once a day; manual: by an operator';
COMMENT ON COLUMN reconciliations.leased_until IS 'until then one worker runs it, or it waits';
COMMENT ON COLUMN reconciliations.read_to IS 'how far an unfinished run has come: whoever takes it over goes on there';
COMMENT ON COLUMN reconciliations.partial IS 'its report so far';
COMMENT ON COLUMN reconciliations.report IS 'NULL, like its counts and sums, until it is finished: a list not read to its end says nothing';
COMMENT ON COLUMN reconciliations.stored_count IS 'payments that were found in the list alone and stored';

CREATE TABLE reconcile_items (
    id           uuid NOT NULL UNIQUE,
    kind         text NOT NULL CHECK (kind IN ('payment', 'payout')),
    ref          text NOT NULL CHECK (ref <> ''),
    exception    jsonb,
    effect       naira NOT NULL DEFAULT 0,
    since        timestamptz,
    found_at     timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    ask_count    integer NOT NULL DEFAULT 0,
    dismissed_at timestamptz,
    PRIMARY KEY (kind, ref),
    CHECK (dismissed_at IS NULL OR exception IS NOT NULL)
);
COMMENT ON TABLE reconcile_items IS
    'A payment or payout on which bank and books disagree. The bank is asked again until they agree; then the row is deleted.';
COMMENT ON COLUMN reconcile_items.ref IS 'the bank''s transaction id of a payment, the merchantTxRef of a payout';
COMMENT ON COLUMN reconcile_items.exception IS 'what was last reported; NULL while the bank''s record is merely not final yet';
COMMENT ON COLUMN reconcile_items.effect IS 'how much more the bank''s wallet has for it than the books, from "since" on';
COMMENT ON COLUMN reconcile_items.due_at IS 'when the bank is asked next';
COMMENT ON COLUMN reconcile_items.dismissed_at IS
    'an operator has taken note: it is not reported again unless it changes, but is still asked about';

CREATE TABLE audit_log (
    id     uuid PRIMARY KEY,
    at     timestamptz NOT NULL,
    actor  text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    reason text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}'
);
-- The decisions on payments under review, which a reconciliation asks the bank about.
CREATE INDEX audit_log_reviews ON audit_log (at) WHERE action LIKE 'review.%';
COMMENT ON TABLE audit_log IS 'Who changed what by hand, and why. Append-only; lines may be removed after a year.';
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log FOR EACH ROW WHEN (OLD.at > now() - interval '1 year') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
