-- Each comparison of the books with the bank's transaction list: its claim, and its report.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE reconciliations (
    id              uuid PRIMARY KEY,
    -- Ordered by the clock, or by a person.
    kind            text NOT NULL CHECK (kind IN ('periodic', 'manual')),
    window_from     timestamptz NOT NULL,
    window_to       timestamptz NOT NULL CHECK (window_to > window_from),
    status          text NOT NULL CHECK (status IN ('running', 'finished', 'failed')),
    -- While it runs, in the hands of one worker until then.
    leased_until    timestamptz,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    -- The report's counts and sums; NULL until it is finished: what was not read to its end says nothing.
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
    CHECK ((status = 'running') = (finished_at IS NULL)),
    CHECK ((status = 'finished') = (report IS NOT NULL))
);
-- One run a window, however many workers there are.
CREATE UNIQUE INDEX reconciliations_window ON reconciliations (window_from, window_to) WHERE kind = 'periodic';
CREATE INDEX reconciliations_read ON reconciliations (window_to) WHERE kind = 'periodic' AND status = 'finished';

-- The payments of a window. They are stored about when they are made, so that a few hundred bytes do what a tree of them all would.
CREATE INDEX inbound_events_occurred ON inbound_events USING brin (occurred_at) WITH (autosummarize = on);
-- Payments that are at the bank and not in the books, and those that a person must look at. There are few.
CREATE INDEX inbound_events_unposted ON inbound_events (id) WHERE authentic AND status = 'failed';
CREATE INDEX ledger_entries_review ON ledger_entries (transaction_group_id) WHERE status = 'needs_review';
