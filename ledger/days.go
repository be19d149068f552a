package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// days is what one transaction adds to the sums by day, which count the entries that are in each
// tenant's balance.
type days map[dayKey]*dayRow

// dayKey is a tenant's day in Lagos, as 2026-01-30.
type dayKey struct {
	tenant uuid.UUID
	day    string
}

// dayRow is what a transaction adds to a day's sums.
type dayRow struct {
	Tenant uuid.UUID    `pg:"tenant"`
	Day    string       `pg:"day"`
	In     money.Amount `pg:"money_in,numeric"`
	Out    money.Amount `pg:"money_out,numeric"`
}

func inBalance(s Status) bool { return s == Provisional || s == Confirmed }

// post counts a new entry. A reversal is in no sum: instead, its original is taken out of its day.
func (d days) post(r *row) {
	if inBalance(r.Status) {
		d.add(r.TenantID, r.Contra, r.CreatedAt, r.Direction, r.Amount)
	}
}

// carry takes an entry that leaves the balance out of the day of its posting, and puts one that
// returns back there.
func (d days) carry(tenant uuid.UUID, e *stored, to Status) {
	switch is, was := inBalance(to), inBalance(e.Status); {
	case is && !was:
		d.add(tenant, e.Contra, e.CreatedAt, e.Direction, e.Amount)
	case was && !is:
		d.add(tenant, e.Contra, e.CreatedAt, e.Direction, e.Amount.Neg())
	}
}

// add counts an entry on its own side, and on the contra side unless that is the provider float, as
// it is for nearly all entries.
func (d days) add(tenant uuid.UUID, contra SystemAccount, posted time.Time, direction Direction, amount money.Amount) {
	d.count(tenant, posted, direction, amount)
	if contra != "" && contra != ProviderFloat {
		d.count(contra.ID(), posted, direction.opposite(), amount)
	}
}

func (d days) count(tenant uuid.UUID, posted time.Time, direction Direction, amount money.Amount) {
	key := dayKey{tenant, clock.Day(posted)}
	if d[key] == nil {
		d[key] = &dayRow{Tenant: tenant, Day: key.day}
	}
	if sum := d[key]; direction == Credit {
		sum.In = sum.In.Add(amount)
	} else {
		sum.Out = sum.Out.Add(amount)
	}
}

// daysSQL takes the first slot that no other transaction has, starting at the connection's own; if
// there is none, it waits for that one.
var daysSQL = `
		INSERT INTO ledger_days AS d (tenant_id, day, slot, money_in, money_out)
		SELECT tenant, day::date, coalesce((
			SELECT i % 32 FROM generate_series(pg_backend_pid(), pg_backend_pid() + 31) AS i WHERE pg_try_advisory_xact_lock('ledger_days'::regclass::oid::integer, i % 32) LIMIT 1),
			pg_backend_pid() % 32), money_in, money_out
		FROM ` + pg.Unnest[dayRow](1, "m") + `
		ORDER BY 1, 2
		ON CONFLICT (tenant_id, day, slot) DO UPDATE SET money_in = d.money_in + excluded.money_in, money_out = d.money_out + excluded.money_out`

// queueDays adds to the stored sums. A day has 32 rows, its slots, and a transaction has one slot
// to itself until it ends, so that nobody waits here, in whatever order a transaction posts. Only
// where more than 32 transactions post at once do some share a slot: therefore each statement locks
// its rows in one order, by tenant and day.
func queueDays(batch *pgx.Batch, d days) {
	if len(d) > 0 {
		batch.Queue(daysSQL, pg.Columns(slices.Collect(maps.Values(d)))...)
	}
}
