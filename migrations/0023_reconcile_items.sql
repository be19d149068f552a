-- What a reconciliation has found and asks about again until it is settled, and the second key of a payment.
-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE reconcile_items (
    id           uuid NOT NULL UNIQUE,
    -- A payment by the bank's transaction id, or a payout by its merchantTxRef.
    kind         text NOT NULL CHECK (kind IN ('payment', 'payout')),
    ref          text NOT NULL CHECK (ref <> ''),
    -- What was last reported of it; NULL while the bank's record only is not final yet.
    exception    jsonb,
    -- How much more the bank's wallet has for it than the books, and from when on.
    effect       naira NOT NULL DEFAULT 0,
    since        timestamptz,
    found_at     timestamptz NOT NULL,
    -- When the bank is asked about it next. There is no last time: a row goes when bank and books agree.
    due_at       timestamptz NOT NULL,
    ask_count    integer NOT NULL DEFAULT 0,
    -- An operator has taken note: it is not reported any more, unless it changes. It is asked about all the same.
    dismissed_at timestamptz,
    PRIMARY KEY (kind, ref),
    CHECK (dismissed_at IS NULL OR exception IS NOT NULL)
);

-- A longer look back once a day, beside the periodic runs.
ALTER TABLE reconciliations DROP CONSTRAINT reconciliations_kind_check;
ALTER TABLE reconciliations ADD CONSTRAINT reconciliations_kind_check CHECK (kind IN ('periodic', 'daily', 'manual'));
CREATE UNIQUE INDEX reconciliations_daily ON reconciliations (window_from, window_to) WHERE kind = 'daily';

ALTER TABLE inbound_events
    -- The interbank switch's id of the transfer, where the event or the bank's record has it.
    ADD COLUMN session_id text NOT NULL DEFAULT '',
    -- The event of which this one may be a repeat under another transaction id: it is not posted before that is decided.
    ADD COLUMN look_alike_of uuid;
-- The payments that the bank's list brought, by what they have in common with an event that comes later. There are few.
CREATE INDEX inbound_events_listed ON inbound_events (alias_number, amount, occurred_at) WHERE source = 'reconciliation';

-- The payouts of a window, by their last submission. They are submitted about in the order in which they are stored.
CREATE INDEX transfers_submitted ON transfers USING brin (submitted_at) WITH (autosummarize = on);
