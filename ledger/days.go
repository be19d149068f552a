package ledger

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
)

// days is what one transaction adds to the sums by day: of each tenant's entries that are in its
// balance.
type days map[dayKey]daySum

// dayKey is a tenant's day in Lagos, as 2026-01-30.
type dayKey struct {
	tenant uuid.UUID
	day    string
}

type daySum struct{ in, out money.Amount }

func inBalance(s Status) bool { return s == Provisional || s == Confirmed }

// post counts a new entry. A reversal is in no sum: its original leaves its own day.
func (d days) post(r *row) {
	if inBalance(r.Status) {
		d.add(r.TenantID, r.CreatedAt, r.Direction, r.Amount)
	}
}

// move takes an entry that leaves the balance out of the day of its posting, and puts one that
// returns back there.
func (d days) move(tenant uuid.UUID, e *stored, to Status) {
	switch is, was := inBalance(to), inBalance(e.Status); {
	case is && !was:
		d.add(tenant, e.CreatedAt, e.Direction, e.Amount)
	case was && !is:
		d.add(tenant, e.CreatedAt, e.Direction, e.Amount.Neg())
	}
}

func (d days) add(tenant uuid.UUID, posted time.Time, direction Direction, amount money.Amount) {
	key := dayKey{tenant, posted.In(clock.Lagos).Format(time.DateOnly)}
	sum := d[key]
	if direction == Credit {
		sum.in = sum.in.Add(amount)
	} else {
		sum.out = sum.out.Add(amount)
	}
	d[key] = sum
}

// queueDays adds to the stored sums. Transactions that share no account still meet on these rows,
// so all of them lock the rows in one order: by tenant, then by day. Most do not meet: a day has 32
// rows, and which one is the connection's.
func queueDays(batch *pgx.Batch, d days) {
	if len(d) == 0 {
		return
	}
	var tenant []uuid.UUID
	var day, in, out []string
	for key, sum := range d {
		tenant, day = append(tenant, key.tenant), append(day, key.day)
		in, out = append(in, sum.in.String()), append(out, sum.out.String())
	}
	batch.Queue(`
		INSERT INTO ledger_days AS d (tenant_id, day, slot, money_in, money_out)
		SELECT tenant, day::date, pg_backend_pid() % 32, money_in::numeric, money_out::numeric
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS m (tenant, day, money_in, money_out)
		ORDER BY 1, 2
		ON CONFLICT (tenant_id, day, slot) DO UPDATE SET money_in = d.money_in + excluded.money_in, money_out = d.money_out + excluded.money_out`,
		tenant, day, in, out)
}
