-- What moved on each day, kept as sums, so that a tenant's overview costs the same whatever its history.
-- +goose Up
SET lock_timeout = '5s';

-- The sums of a tenant's entries that are in its balance (provisional or confirmed), by the day in Lagos (UTC+1, all the year) of
-- their posting. A day is shared out over 32 rows, by the connection that posts, so that posters at once do not wait for
-- one another at one row; the sum over them is the day's.
CREATE TABLE ledger_days (
    tenant_id uuid NOT NULL,
    day       date NOT NULL,
    slot      integer NOT NULL CHECK (slot BETWEEN 0 AND 31),
    -- Of one slot they may be below zero: an entry may leave the balance by another connection than it came.
    money_in  naira NOT NULL,
    money_out naira NOT NULL,
    PRIMARY KEY (tenant_id, day, slot)
) WITH (fillfactor = 50);

-- Triggers, and not package ledger, so that a program of the version before that still runs is counted too.
-- +goose StatementBegin
CREATE FUNCTION ledger_days_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_days AS d (tenant_id, day, slot, money_in, money_out)
    SELECT tenant_id, (created_at AT TIME ZONE interval '1 hour')::date, pg_backend_pid() % 32,
        coalesce(sum(amount) FILTER (WHERE direction = 'credit'), 0), coalesce(sum(amount) FILTER (WHERE direction = 'debit'), 0)
    FROM posted WHERE status IN ('provisional', 'confirmed') GROUP BY 1, 2 ORDER BY 1, 2 -- one order, whoever posts
    ON CONFLICT (tenant_id, day, slot) DO UPDATE SET money_in = d.money_in + excluded.money_in, money_out = d.money_out + excluded.money_out;
    RETURN NULL;
END $$;

-- An entry that leaves the balance is taken from the day of its posting, and put back there when it returns.
CREATE FUNCTION ledger_days_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved numeric := CASE WHEN NEW.status IN ('provisional', 'confirmed') THEN NEW.amount ELSE -NEW.amount END;
BEGIN
    INSERT INTO ledger_days AS d (tenant_id, day, slot, money_in, money_out)
    VALUES (NEW.tenant_id, (NEW.created_at AT TIME ZONE interval '1 hour')::date, pg_backend_pid() % 32,
        CASE NEW.direction WHEN 'credit' THEN moved ELSE 0 END, CASE NEW.direction WHEN 'debit' THEN moved ELSE 0 END)
    ON CONFLICT (tenant_id, day, slot) DO UPDATE SET money_in = d.money_in + excluded.money_in, money_out = d.money_out + excluded.money_out;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER ledger_entries_day AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS posted
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_days_add();
CREATE TRIGGER ledger_entries_day_moved AFTER UPDATE OF status ON ledger_entries FOR EACH ROW
    WHEN ((OLD.status IN ('provisional', 'confirmed')) <> (NEW.status IN ('provisional', 'confirmed'))) EXECUTE FUNCTION ledger_days_move();

-- The entries that are there, of the days that an overview shows. From here to the commit nobody posts: making the triggers
-- locks the table. The range of ids, which have their time in front, reads the last month and not the table.
INSERT INTO ledger_days (tenant_id, day, slot, money_in, money_out)
SELECT tenant_id, (created_at AT TIME ZONE interval '1 hour')::date, 0,
    coalesce(sum(amount) FILTER (WHERE direction = 'credit'), 0), coalesce(sum(amount) FILTER (WHERE direction = 'debit'), 0)
FROM ledger_entries
WHERE status IN ('provisional', 'confirmed')
    AND id >= (lpad(to_hex((extract(epoch FROM now() - interval '32 days') * 1000)::bigint), 12, '0') || '0000' || '0000000000000000')::uuid
GROUP BY 1, 2;

-- The balances of a tenant. The column never changes, so an update of a balance still needs no new index entry.
CREATE INDEX ledger_balances_tenant ON ledger_balances (tenant_id);
