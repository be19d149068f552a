-- Settlements, and the keys that make a request safe to repeat.
-- +goose Up

-- No foreign keys, for the reason given at ledger_entries; they would lock the tenant's one row as
-- well. A tenant that has transfers has accounts, which cannot be removed.
CREATE TABLE transfers (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    account_id       uuid NOT NULL,
    merchant_tx_ref  text NOT NULL UNIQUE,
    status           text NOT NULL CHECK (status IN ('pending', 'processing', 'success', 'failed', 'refunded')),
    waiting          boolean NOT NULL GENERATED ALWAYS AS (status = 'pending') STORED,
    amount           naira NOT NULL CHECK (amount > 0),
    currency         text NOT NULL DEFAULT 'NGN' CHECK (currency = 'NGN'),
    bank_code        text NOT NULL CHECK (bank_code ~ '^[0-9]{3,6}$'),
    bank_name        text NOT NULL DEFAULT '',
    account_number   text NOT NULL CHECK (account_number ~ '^[0-9]{10}$'),
    account_name     text NOT NULL DEFAULT '',
    expected_name    text NOT NULL DEFAULT '',
    narration        text NOT NULL DEFAULT '',
    attempt_count    integer NOT NULL DEFAULT 0,
    ask_count        integer NOT NULL DEFAULT 0,
    unknown_count    integer NOT NULL DEFAULT 0,
    submitted_at     timestamptz,
    acknowledged_at  timestamptz,
    ended_by         text NOT NULL DEFAULT '' CHECK (ended_by IN ('', 'bank', 'silence', 'books', 'operator', 'tenant')),
    failure_reason   text NOT NULL DEFAULT '',
    provider_fee     naira CHECK (provider_fee >= 0),
    provider_vat     naira CHECK (provider_vat >= 0),
    provider_stamp_duty naira CHECK (provider_stamp_duty >= 0),
    booked_fee       naira CHECK (booked_fee >= 0),
    booked_taxes     naira CHECK (booked_taxes >= 0),
    booking_count    integer NOT NULL DEFAULT 0,
    fee_by_tenant    boolean NOT NULL DEFAULT false,
    reserved_fee     naira CHECK (reserved_fee > 0),
    tenant_fee       naira CHECK (tenant_fee >= 0),
    tenant_taxes     naira CHECK (tenant_taxes >= 0),
    platform_fee     naira CHECK (platform_fee > 0),
    platform_vat     naira CHECK (platform_vat >= 0),
    difference       text NOT NULL DEFAULT '',
    differs_since    timestamptz CHECK (differs_since IS NULL OR difference <> ''),
    debit_group      uuid,
    debit_seq        bigint,
    debits_to        naira,
    paid_amount      naira CHECK (paid_amount IS NULL OR (paid_amount > 0 AND debit_group IS NOT NULL)),
    refund_of        uuid,
    refund_name      text,
    by_policy        boolean NOT NULL DEFAULT false,
    approvals_needed smallint NOT NULL DEFAULT 0 CHECK (approvals_needed BETWEEN 0 AND 10),
    approved_at      timestamptz CHECK (approved_at IS NULL OR approvals_needed > 0),
    made_by          uuid,
    approval_hook    text CHECK (approval_hook IS NULL OR approvals_needed > 0),
    last_error       text NOT NULL DEFAULT '',
    traceparent      text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    counted          boolean NOT NULL DEFAULT false,
    adopted          boolean NOT NULL DEFAULT false,
    unpaid           boolean NOT NULL GENERATED ALWAYS AS (status IN ('failed', 'refunded')) STORED,
    CHECK (status <> 'processing' OR attempt_count > 0),
    CHECK (status <> 'pending' OR (debit_seq IS NOT NULL AND debits_to IS NOT NULL)),
    CHECK ((refund_of IS NULL) = (refund_name IS NULL)),
    CHECK ((platform_fee IS NULL) = (platform_vat IS NULL)),
    CHECK (fee_by_tenant OR (reserved_fee IS NULL AND tenant_fee IS NULL AND tenant_taxes IS NULL))
) WITH (fillfactor = 45);
CREATE INDEX transfers_list ON transfers (tenant_id, id);
-- By a column that the everyday updates leave as it is, unlike the status: so they stay HOT (see
-- ledger_entries).
CREATE INDEX transfers_unpaid ON transfers (tenant_id, id) WHERE unpaid;
CREATE INDEX transfers_account ON transfers (account_id, id);
-- No index names the status: a submission writes the other indexes again, an end does not.
-- In the order in which those of an account leave.
CREATE INDEX transfers_waiting ON transfers (account_id, debit_seq) WHERE waiting;
-- Those that await approval. An end writes it no more often than the index before.
CREATE INDEX transfers_awaiting ON transfers (tenant_id, created_at) WHERE waiting AND approvals_needed > 0 AND approved_at IS NULL;
CREATE UNIQUE INDEX transfers_debit ON transfers (debit_group) WHERE debit_group IS NOT NULL;
CREATE INDEX transfers_refunds ON transfers (refund_of) WHERE refund_of IS NOT NULL;
CREATE INDEX transfers_differ ON transfers (differs_since) WHERE differs_since IS NOT NULL;
-- The payouts of a window of reconciliation. They are submitted about in the order they are stored.
CREATE INDEX transfers_submitted ON transfers USING brin (submitted_at) WITH (autosummarize = on);
COMMENT ON TABLE transfers IS 'A settlement: money paid out from an account to any bank account.';
COMMENT ON COLUMN transfers.merchant_tx_ref IS
    'its one reference for life: the bank''s idempotency key, and the tenant''s only handle';
COMMENT ON COLUMN transfers.waiting IS 'not submitted yet, and not ended; for its index';
COMMENT ON COLUMN transfers.bank_name IS 'as the bank''s list named it when the transfer was accepted; empty if the list could not be read';
COMMENT ON COLUMN transfers.account_name IS 'the holder, as the bank named it before the first submission';
COMMENT ON COLUMN transfers.expected_name IS 'the holder that the settlement names, without case and punctuation: the bank must name it before the first submission; empty: any';
COMMENT ON COLUMN transfers.attempt_count IS 'submissions to the bank; counted before each call, so that one cut off counts too';
COMMENT ON COLUMN transfers.ask_count IS 'questions to the bank since the last submission or the end, or since an event of the bank about one that has ended, that were asked at their time';
COMMENT ON COLUMN transfers.unknown_count IS 'those of them that the bank answered with "not known"';
COMMENT ON COLUMN transfers.acknowledged_at IS
    'when an answer first showed that the bank has the reference (accepted, under way, a duplicate, or a record); never changes';
COMMENT ON COLUMN transfers.ended_by IS
    'who decided the outcome: bank (its record or refusal), silence (it knew none of five submissions), books (never covered), operator, tenant (not approved)';
COMMENT ON COLUMN transfers.failure_reason IS 'why it failed or was refunded, in words for the tenant; last_error has the bank''s, for operators';
COMMENT ON COLUMN transfers.provider_fee IS 'the bank''s fee by its own record; NULL until the bank has said';
COMMENT ON COLUMN transfers.provider_vat IS 'beside it, as is provider_stamp_duty; NULL where the record does not name it';
COMMENT ON COLUMN transfers.booked_fee IS 'what the books have of the fee: entries of kind fee add up to it; NULL: nothing was booked';
COMMENT ON COLUMN transfers.booked_taxes IS 'what they have of VAT and stamp duty';
COMMENT ON COLUMN transfers.booking_count IS 'how often the two were set: a part of the transaction groups of their entries';
COMMENT ON COLUMN transfers.fee_by_tenant IS 'the tenant bears what the bank takes: its policy when the transfer was accepted';
COMMENT ON COLUMN transfers.reserved_fee IS 'expected fee, debited provisionally with the amount; NULL: none, or what the bank took is known by now';
COMMENT ON COLUMN transfers.tenant_fee IS 'what the account has been debited of booked_fee; less than that where it had no more: the platform bears the rest';
COMMENT ON COLUMN transfers.tenant_taxes IS 'what it has been debited of booked_taxes';
COMMENT ON COLUMN transfers.platform_fee IS
    'what the platform takes, debited with the amount, by the price that held at acceptance; NULL: nothing, or it went back with the amount';
COMMENT ON COLUMN transfers.platform_vat IS 'the VAT on it';
COMMENT ON COLUMN transfers.difference IS 'how the bank''s record differs from the books; empty where they agree';
COMMENT ON COLUMN transfers.differs_since IS 'since when the difference waits for a person; NULL with a difference: a person has dealt with it';
COMMENT ON COLUMN transfers.debit_group IS
    'transaction group of the debit an operator booked in place of the first one, whose group is the transfer''s id';
COMMENT ON COLUMN transfers.debit_seq IS 'the position of its first debit in the account: those that wait leave in this order; NULL: it never waited';
COMMENT ON COLUMN transfers.debits_to IS
    'the account''s total_debits right after that debit: a payout that this alone shows to lack cover is put off without a look at those that wait beside it';
COMMENT ON COLUMN transfers.paid_amount IS 'what left by that debit, where it is another sum than was ordered';
COMMENT ON COLUMN transfers.refund_of IS 'the entry of the payment that it pays back to where it came from';
COMMENT ON COLUMN transfers.by_policy IS 'a refund that the account''s policy made: what comes back of it is held';
COMMENT ON COLUMN transfers.refund_name IS 'of a refund: the payer, by the bank''s record of the payment; the destination''s holder must have that name';
COMMENT ON COLUMN transfers.approvals_needed IS 'how many members must approve it before it is submitted, by the policy that held at acceptance';
COMMENT ON COLUMN transfers.approved_at IS 'when so many had; until then nothing is submitted';
COMMENT ON COLUMN transfers.made_by IS 'the member who asked for it, who may not approve it; NULL: an API key';
COMMENT ON COLUMN transfers.approval_hook IS 'the URL that is asked whether it may leave, by the policy that held at acceptance; NULL: none';
COMMENT ON COLUMN transfers.counted IS 'it is in payout_days, on the day of its acceptance';
COMMENT ON COLUMN transfers.adopted IS
    'made, or under way, by the bank''s record alone, as after a restore: the money had left';
COMMENT ON COLUMN transfers.traceparent IS 'W3C trace context of the step that stored the row; empty if not traced';

-- +goose StatementBegin
CREATE FUNCTION transfer_acknowledged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transfer %: the bank has acknowledged it; it is not submitted again, and fails at the bank''s or an operator''s word only', OLD.id
        USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION transfer_rebooked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transfer %: from % to % only by an operator, and with a new debit', OLD.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
END $$;

-- All credits of a payment: one that was reversed and posted again has several, and was refunded by
-- the refunds of any.
CREATE FUNCTION payment_entries(payment ledger_entries) RETURNS uuid[] LANGUAGE sql STABLE
    RETURN ARRAY(SELECT payment.id UNION SELECT e.id FROM event_keys k JOIN ledger_entries e ON e.transaction_group_id = k.event_id
        WHERE k.transaction = event_key(nullif(payment.provider_txn_ref, '')) AND e.account_id = payment.account_id AND e.direction = 'credit' AND e.reversal_of IS NULL);

-- Under the lock of the account's balance, which every refund of the payment takes. What is adopted
-- has left, whatever it makes of the sum, and whatever has become of the payment since.
CREATE FUNCTION transfer_refunds() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    payment ledger_entries;
BEGIN
    SELECT * INTO payment FROM ledger_entries WHERE id = NEW.refund_of;
    IF payment.tenant_id IS DISTINCT FROM NEW.tenant_id OR payment.account_id IS DISTINCT FROM NEW.account_id OR payment.direction <> 'credit'
        OR NOT (payment.status = 'confirmed' OR NEW.adopted AND payment.status = 'reversed') OR payment.reversal_of IS NOT NULL OR payment.kind NOT IN ('', 'suspense') THEN
        RAISE EXCEPTION 'transfer %: entry % is no confirmed payment to its account', NEW.id, NEW.refund_of USING ERRCODE = 'check_violation';
    END IF;
    IF NOT NEW.adopted AND payment.amount < (SELECT sum(coalesce(paid_amount, amount)) FROM transfers WHERE refund_of = ANY(payment_entries(payment)) AND status NOT IN ('failed', 'refunded')) THEN
        RAISE EXCEPTION 'transfer %: more than entry % would be refunded', NEW.id, NEW.refund_of USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- Approvals are never taken back, so what is approved once stays so. What is adopted has left.
CREATE FUNCTION transfer_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.approved_at IS NULL OR OLD.approved_at IS NOT NULL AND NEW.approved_at <> OLD.approved_at
        OR NEW.approvals_needed > (SELECT count(*) FROM transfer_approvals WHERE transfer_id = NEW.id AND decision = 'approve') THEN
        RAISE EXCEPTION 'transfer %: it is not approved', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

-- Under the lock of the transfer, which every decision takes.
CREATE FUNCTION approval_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM transfers WHERE id = NEW.transfer_id AND tenant_id = NEW.tenant_id AND status = 'pending' AND approvals_needed > 0
        AND approved_at IS NULL AND made_by IS DISTINCT FROM NEW.member_id)
        -- nor the same person under another id, after having been removed and invited again
        OR EXISTS (SELECT FROM members m JOIN members same ON same.tenant_id = m.tenant_id AND same.email = m.email AND same.id <> m.id
            WHERE m.tenant_id = NEW.tenant_id AND m.id = NEW.member_id AND (EXISTS (SELECT FROM transfers WHERE id = NEW.transfer_id AND made_by = same.id)
                OR EXISTS (SELECT FROM transfer_approvals WHERE transfer_id = NEW.transfer_id AND member_id = same.id))) THEN
        RAISE EXCEPTION 'transfer %: member % has no say in it', NEW.transfer_id, NEW.member_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER transfers_refund AFTER INSERT ON transfers FOR EACH ROW WHEN (NEW.refund_of IS NOT NULL) EXECUTE FUNCTION transfer_refunds();
-- A refund out of suspense that failed, and that the bank paid after its payment had been assigned,
-- becomes that account's.
CREATE TRIGGER transfers_refund_fixed AFTER UPDATE ON transfers FOR EACH ROW
    WHEN ((OLD.refund_name, OLD.expected_name, OLD.approvals_needed, OLD.made_by, OLD.approval_hook, OLD.debit_seq, OLD.debits_to)
            IS DISTINCT FROM (NEW.refund_name, NEW.expected_name, NEW.approvals_needed, NEW.made_by, NEW.approval_hook, NEW.debit_seq, NEW.debits_to)
        OR OLD.refund_of IS DISTINCT FROM NEW.refund_of
            AND NOT (OLD.tenant_id = OLD.account_id AND NEW.tenant_id <> NEW.account_id AND OLD.status IN ('failed', 'refunded')))
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transfers_approved AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (NEW.approvals_needed > 0 AND NOT (NEW.adopted AND NOT OLD.adopted)
        AND (NEW.attempt_count <> OLD.attempt_count OR NEW.approved_at IS DISTINCT FROM OLD.approved_at))
    EXECUTE FUNCTION transfer_approved();
-- After the update, and without a call for the everyday moves: see the ledger's guards.
-- From failed or refunded to success: the bank has paid after all, and an operator books it.
CREATE TRIGGER transfers_status AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'processing')
        AND NOT (OLD.status = 'processing' AND NEW.status = 'success'))
    EXECUTE FUNCTION check_move('status', 'pending>processing', 'pending>failed', 'processing>success', 'processing>failed',
        'processing>refunded', 'success>refunded', 'failed>success', 'refunded>success');
-- What the bank has is neither submitted again nor given back because the bank does not find it.
-- What is adopted counts a submission that was made before.
CREATE TRIGGER transfers_acknowledged AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.acknowledged_at IS NOT NULL AND (NEW.acknowledged_at IS DISTINCT FROM OLD.acknowledged_at
        OR (NEW.attempt_count <> OLD.attempt_count AND NOT (NEW.adopted AND NOT OLD.adopted))
        OR (OLD.status = 'processing' AND NEW.status = 'failed' AND NEW.ended_by NOT IN ('bank', 'operator'))))
    EXECUTE FUNCTION transfer_acknowledged();
CREATE TRIGGER transfers_rebooked AFTER UPDATE ON transfers FOR EACH ROW
    WHEN (OLD.status IN ('failed', 'refunded') AND NEW.status = 'success'
        AND (NEW.ended_by <> 'operator' OR NEW.debit_group IS NULL OR NEW.debit_group IS NOT DISTINCT FROM OLD.debit_group))
    EXECUTE FUNCTION transfer_rebooked();
CREATE TRIGGER transfers_kept BEFORE DELETE ON transfers FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- No foreign keys, as of transfers. The submission of a transfer that needs approvals counts its
-- rows.
CREATE TABLE transfer_approvals (
    transfer_id uuid NOT NULL,
    member_id   uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    decision    text NOT NULL CHECK (decision IN ('approve', 'reject')),
    decided_at  timestamptz NOT NULL,
    PRIMARY KEY (transfer_id, member_id)
);
COMMENT ON TABLE transfer_approvals IS 'What a member has decided about a transfer that needs approval. Append-only.';
COMMENT ON COLUMN transfer_approvals.member_id IS 'all zeros: the tenant''s own system, by its approval hook';
CREATE TRIGGER transfer_approvals_allowed AFTER INSERT ON transfer_approvals FOR EACH ROW EXECUTE FUNCTION approval_allowed();
CREATE TRIGGER transfer_approvals_append_only BEFORE UPDATE OR DELETE ON transfer_approvals FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- No foreign keys, as of transfers. The bank has named the holder before there is a row.
CREATE TABLE beneficiaries (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    bank_code      text NOT NULL CHECK (bank_code ~ '^[0-9]{3,6}$'),
    bank_name      text NOT NULL,
    account_number text NOT NULL CHECK (account_number ~ '^[0-9]{10}$'),
    account_name   text NOT NULL CHECK (account_name <> ''),
    label          text NOT NULL CHECK (char_length(label) <= 100),
    exempt         boolean NOT NULL DEFAULT false,
    saved_by       text NOT NULL CHECK (saved_by <> ''),
    saved_at       timestamptz NOT NULL,
    removed_at     timestamptz
);
CREATE UNIQUE INDEX beneficiaries_account ON beneficiaries (tenant_id, bank_code, account_number) WHERE removed_at IS NULL;
CREATE INDEX beneficiaries_list ON beneficiaries (tenant_id, id) WHERE removed_at IS NULL;
COMMENT ON TABLE beneficiaries IS 'A bank account that a tenant pays out to, saved under a label of its own.';
COMMENT ON COLUMN beneficiaries.bank_name IS 'as the bank''s list named it; empty if the list could not be read';
COMMENT ON COLUMN beneficiaries.account_name IS 'the holder, as the bank named it when the beneficiary was saved; a payout to the beneficiary needs the same name';
COMMENT ON COLUMN beneficiaries.exempt IS 'payouts to its account need no approval, whatever the tenant''s policy says; only the tenant''s owner sets it';
COMMENT ON COLUMN beneficiaries.saved_by IS 'who saved it, as the audit log has it: session:<e-mail> or key:<id>';
COMMENT ON COLUMN beneficiaries.removed_at IS 'from then on no payout can name it; the row is kept as it was';
-- Another account, or another holder, is another beneficiary.
CREATE TRIGGER beneficiaries_unchanged BEFORE UPDATE ON beneficiaries FOR EACH ROW WHEN (
    OLD.removed_at IS NOT NULL
    OR (OLD.id, OLD.tenant_id, OLD.bank_code, OLD.bank_name, OLD.account_number, OLD.account_name, OLD.saved_by, OLD.saved_at)
        IS DISTINCT FROM (NEW.id, NEW.tenant_id, NEW.bank_code, NEW.bank_name, NEW.account_number, NEW.account_name, NEW.saved_by, NEW.saved_at)
) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER beneficiaries_kept BEFORE DELETE ON beneficiaries FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Read by every claim and submission of a payout, by the index: it has the freezes that stand.
CREATE TABLE freezes (
    id         uuid PRIMARY KEY,
    scope      text NOT NULL CHECK (scope IN ('account', 'tenant', 'payouts')),
    subject    uuid NOT NULL,
    tenant_id  uuid,
    requests   boolean NOT NULL DEFAULT false,
    reason     text NOT NULL CHECK (reason <> ''),
    actor      text NOT NULL CHECK (actor <> ''),
    created_at timestamptz NOT NULL,
    until      timestamptz CHECK (until > created_at),
    lifted_at  timestamptz,
    CHECK ((scope = 'payouts') = (subject = '00000000-0000-0000-0000-000000000000')),
    CHECK ((scope = 'payouts') = (tenant_id IS NULL)),
    CHECK (scope = 'account' OR NOT requests)
);
CREATE INDEX freezes_standing ON freezes (subject) WHERE lifted_at IS NULL;
COMMENT ON TABLE freezes IS
    'What operators have stopped: while one stands, no payout of its subject is submitted that had not been.';
COMMENT ON COLUMN freezes.subject IS 'the account or the tenant; all zeros: all payouts';
COMMENT ON COLUMN freezes.requests IS 'of an account: new settle requests are refused too; otherwise they are accepted, and wait';
COMMENT ON COLUMN freezes.until IS 'when it ends by itself; NULL: when it is lifted';
COMMENT ON COLUMN freezes.lifted_at IS 'when an operator ended it';
CREATE TRIGGER freezes_kept BEFORE DELETE ON freezes FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- A settle request looks whether its tenant has a row here: the table is as small as they are few.
CREATE TABLE payout_limits (
    tenant_id       uuid NOT NULL,
    starts_at       timestamptz NOT NULL,
    max_transfer    naira CHECK (max_transfer >= 0),
    max_account_day naira CHECK (max_account_day >= 0),
    max_tenant_day  naira CHECK (max_tenant_day >= 0),
    created_at      timestamptz NOT NULL,
    actor           text NOT NULL CHECK (actor <> ''),
    reason          text NOT NULL CHECK (reason <> ''),
    PRIMARY KEY (tenant_id, starts_at),
    CHECK (starts_at >= created_at)
);
COMMENT ON TABLE payout_limits IS 'What a tenant may pay out, from a time on and until the next row starts. Append-only.';
COMMENT ON COLUMN payout_limits.starts_at IS 'created_at, if it was set for now: it stands at once, whatever a clock says';
COMMENT ON COLUMN payout_limits.max_transfer IS 'of one settlement; NULL: no limit';
COMMENT ON COLUMN payout_limits.max_account_day IS 'of an account''s settlements of a day in Lagos';
COMMENT ON COLUMN payout_limits.max_tenant_day IS 'of all settlements of a day';
CREATE TRIGGER payout_limits_append_only BEFORE UPDATE OR DELETE ON payout_limits FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE wallets (
    seq        integer PRIMARY KEY,
    wallet_id  text NOT NULL CHECK (wallet_id <> ''),
    host       text NOT NULL CHECK (host <> ''),
    since      timestamptz NOT NULL
);
COMMENT ON TABLE wallets IS 'Our account at the bank that the books are of: as the settings named it until the first account was opened, and where operators have moved them since. Append-only.';
COMMENT ON COLUMN wallets.seq IS 'the highest counts: a process with other settings does not start';
COMMENT ON COLUMN wallets.wallet_id IS 'AJO_PROVIDER_ACCOUNT_ID';
COMMENT ON COLUMN wallets.host IS 'of the bank''s API';
CREATE TRIGGER wallets_append_only BEFORE UPDATE OR DELETE ON wallets FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- A row is the lock of what it counts.
CREATE TABLE payout_days (
    tenant_id uuid NOT NULL,
    subject   uuid NOT NULL,
    day       date NOT NULL,
    paid      naira NOT NULL CHECK (paid >= 0),
    PRIMARY KEY (tenant_id, subject, day)
) WITH (fillfactor = 50);
COMMENT ON TABLE payout_days IS 'What was accepted for payout on a day and has not failed since: of tenants with limits, and of their accounts.';
COMMENT ON COLUMN payout_days.subject IS 'the tenant, or an account of it';
COMMENT ON COLUMN payout_days.day IS 'day of the acceptance in Lagos (UTC+1, all the year)';

-- A row is the lock of what it counts.
CREATE TABLE payout_turns (
    bank_code      text NOT NULL,
    account_number text NOT NULL,
    since          timestamptz NOT NULL,
    taken          integer NOT NULL,
    put_off        integer NOT NULL,
    tenant_id      uuid,
    PRIMARY KEY (bank_code, account_number)
) WITH (fillfactor = 50);
CREATE INDEX payout_turns_since ON payout_turns (since);
COMMENT ON TABLE payout_turns IS 'Payouts to one account in the present minute: the bank takes a few.';
COMMENT ON COLUMN payout_turns.since IS 'when the first of the minute asked';
COMMENT ON COLUMN payout_turns.put_off IS 'payouts that asked in the minute when no turn was left for them';
COMMENT ON COLUMN payout_turns.tenant_id IS 'who has taken all turns of the minute, if it is one tenant';

-- No foreign key to tenants either: what is left of a removed tenant is purged after a week.
CREATE TABLE idempotency_keys (
    tenant_id    uuid NOT NULL,
    key          text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    status_code  integer,
    response     bytea,
    leased_until timestamptz,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key),
    CHECK ((status_code IS NULL) = (response IS NULL))
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
COMMENT ON TABLE idempotency_keys IS
    'A request with an Idempotency-Key that changed something, and its answer, stored in the same transaction.';
COMMENT ON COLUMN idempotency_keys.request_hash IS 'SHA-256 of method, path and body: the same key with another request is refused';
COMMENT ON COLUMN idempotency_keys.status_code IS 'of the answer, as is response; NULL while the request is under way';
COMMENT ON COLUMN idempotency_keys.leased_until IS 'until then one caller has the request';

-- See ledger_entries.
ALTER TABLE transfers SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
