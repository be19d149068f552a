-- A payment whose credit was reversed counts by another event: its credit was wrongly reversed, or its true sum was not the event's.
-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE inbound_events
    -- The event in whose place this one stands. Its request_id is made of it, so there is one at most.
    ADD COLUMN replaces uuid,
    DROP CONSTRAINT inbound_events_source_check,
    ADD CONSTRAINT inbound_events_source_check CHECK (source IN ('webhook', 'reconciliation', 'replacement')),
    ADD CONSTRAINT inbound_events_replaces CHECK ((source = 'replacement') = (replaces IS NOT NULL));

-- A replacement has another type than the payment, so the index by transaction and type lets both stand; what counts is one.
-- +goose StatementBegin
CREATE FUNCTION inbound_event_replaces() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM inbound_events e JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit' AND l.reversal_of IS NULL
        WHERE e.authentic AND e.provider_txn_ref <> '' AND e.provider_txn_ref = NEW.provider_txn_ref AND l.status <> 'reversed') THEN
        RAISE EXCEPTION 'inbound event %: another credit of transaction % counts', NEW.id, NEW.provider_txn_ref USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER inbound_events_replaces BEFORE INSERT ON inbound_events FOR EACH ROW
    WHEN (NEW.replaces IS NOT NULL) EXECUTE FUNCTION inbound_event_replaces();
