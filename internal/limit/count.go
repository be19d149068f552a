package limit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Payer is an account of a tenant that has limits, or whose sums of a day are counted all the same.
type Payer struct {
	TenantID, AccountID uuid.UUID
}

// sum is what a subject, an account or its tenant, has paid out on the day.
type sum struct {
	TenantID uuid.UUID    `pg:"tenant_id"`
	Subject  uuid.UUID    `pg:"subject"`
	Day      string       `pg:"day"`
	Added    money.Amount `pg:"added,numeric"`
	paid     money.Amount
}

// Count is the sums of a day that a transaction has locked. The nil Count counts nothing, and
// refuses nothing.
type Count struct {
	limits map[uuid.UUID]Payouts // by tenant
	sums   map[uuid.UUID]*sum    // by subject
}

// Begin locks the sums of today of the payers and of their tenants until the transaction ends, in
// the order of tenants and subjects, and reads the limits that stand. Without payers it returns
// nil. It comes before the locks of balances.
func Begin(ctx context.Context, tx pg.Tx, now time.Time, payers []Payer) (*Count, error) {
	if len(payers) == 0 {
		return nil, nil
	}
	day := clock.Day(now)
	c := &Count{limits: map[uuid.UUID]Payouts{}, sums: map[uuid.UUID]*sum{}}
	var wanted []*sum
	var tenants []uuid.UUID
	for _, p := range payers {
		for _, subject := range []uuid.UUID{p.TenantID, p.AccountID} {
			if c.sums[subject] == nil {
				c.sums[subject] = &sum{TenantID: p.TenantID, Subject: subject, Day: day}
				wanted = append(wanted, c.sums[subject])
			}
		}
		tenants = append(tenants, p.TenantID)
	}
	slices.SortFunc(wanted, func(a, b *sum) int {
		return cmp.Or(pg.CompareIDs(a.TenantID, b.TenantID), pg.CompareIDs(a.Subject, b.Subject))
	})
	columns := pg.Columns(wanted)
	if _, err := tx.Exec(ctx, openSQL, columns...); err != nil {
		return nil, err
	}
	rows := pg.Rows(ctx, tx, lockSQL, columns[:3]...)
	var subject uuid.UUID
	var paid money.Amount
	if _, err := pgx.ForEachRow(rows, []any{&subject, &paid}, func() error {
		c.sums[subject].paid = paid
		return nil
	}); err != nil {
		return nil, err
	}
	rows = pg.Rows(ctx, tx, limitsSQL, tenants, now)
	var tenant uuid.UUID
	var l Payouts
	_, err := pgx.ForEachRow(rows, []any{&tenant, &l.MaxTransfer, &l.MaxAccountDay, &l.MaxTenantDay}, func() error {
		c.limits[tenant] = l
		return nil
	})
	return c, err
}

// ofDay joins the sums d to their subjects s (for its form see package pg, plans.go).
const ofDay = `d.tenant_id = ANY(ARRAY[s.tenant_id]) AND d.subject = ANY(ARRAY[s.subject]) AND d.day = ANY(ARRAY[s.day::date])`

var (
	openSQL = `
		INSERT INTO payout_days (tenant_id, subject, day, paid) SELECT tenant_id, subject, day::date, added
		FROM ` + pg.Unnest[sum](1, "s") + ` ORDER BY n ON CONFLICT DO NOTHING`
	lockSQL = `
		SELECT d.subject, d.paid FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS s (tenant_id, subject, day) JOIN payout_days d ON ` + ofDay + `
		ORDER BY d.tenant_id, d.subject FOR NO KEY UPDATE OF d`
	limitsSQL = `
		SELECT DISTINCT ON (tenant_id) tenant_id, max_transfer, max_account_day, max_tenant_day FROM payout_limits
		WHERE tenant_id = ANY($1) AND ` + begun + ` ORDER BY tenant_id, starts_at DESC`
	saveSQL = `
		UPDATE payout_days d SET paid = d.paid + s.added FROM ` + pg.Unnest[sum](1, "s") + `
		WHERE ` + ofDay
)

// Take counts a settlement if the limits leave room for it, behind those that were counted before
// it. The refusal names the limit, its value and what is left of it.
func (c *Count) Take(p Payer, amount money.Amount) error {
	if c == nil || c.sums[p.AccountID] == nil {
		return nil
	}
	l, account, tenant := c.limits[p.TenantID], c.sums[p.AccountID], c.sums[p.TenantID]
	switch {
	case l.MaxTransfer != nil && amount.Cmp(*l.MaxTransfer) > 0:
		return errs.New(errs.Invalid, "amount is above the limit maxTransfer: NGN "+l.MaxTransfer.String())
	case !account.leaves(l.MaxAccountDay, amount):
		return account.refusal("maxAccountDay", *l.MaxAccountDay)
	case !tenant.leaves(l.MaxTenantDay, amount):
		return tenant.refusal("maxTenantDay", *l.MaxTenantDay)
	}
	account.add(amount)
	tenant.add(amount)
	return nil
}

// Counts reports whether the payer's settlements are counted.
func (c *Count) Counts(p Payer) bool { return c != nil && c.sums[p.AccountID] != nil }

// Today is what the payer's tenant has paid out today, with what was taken.
func (c *Count) Today(p Payer) money.Amount { return c.sums[p.TenantID].paid }

// leaves reports whether a limit of the day leaves room for an amount.
func (s *sum) leaves(limit *money.Amount, amount money.Amount) bool {
	return limit == nil || s.paid.Add(amount).Cmp(*limit) <= 0
}

func (s *sum) refusal(name string, limit money.Amount) error {
	return errs.New(errs.Invalid, "amount is above the limit "+name+": NGN "+limit.String()+" a day, NGN "+limit.Left(s.paid).String()+" left")
}

func (s *sum) add(amount money.Amount) { s.paid, s.Added = s.paid.Add(amount), s.Added.Add(amount) }

// Save stores what was taken.
func (c *Count) Save(ctx context.Context, tx pg.Tx) error {
	if c == nil {
		return nil
	}
	var added []*sum
	for _, s := range c.sums {
		if s.Added.Sign() != 0 {
			added = append(added, s)
		}
	}
	if len(added) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, saveSQL, pg.Columns(added)...)
	return err
}

// Change says by how much the sum differs that a transfer pays out.
type Change struct {
	Transfer uuid.UUID    `pg:"id"`
	By       money.Amount `pg:"delta,numeric"` // below zero: it is not paid, or pays less
}

// changeSQL names the counted transfers' days by their acceptance, as Begin did.
var changeSQL = `
	WITH m AS MATERIALIZED (
		SELECT t.tenant_id, s.subject, (t.created_at AT TIME ZONE 'UTC' + interval '1 hour')::date AS day, sum(c.delta) AS delta
		FROM ` + pg.Unnest[Change](1, "c") + ` JOIN transfers t ON t.id = ANY(ARRAY[c.id]) CROSS JOIN LATERAL unnest(ARRAY[t.tenant_id, t.account_id]) AS s (subject)
		WHERE t.counted GROUP BY 1, 2, 3),
	locked AS MATERIALIZED (
		SELECT d.tenant_id, d.subject, d.day, m.delta FROM m JOIN payout_days d
			ON d.tenant_id = ANY(ARRAY[m.tenant_id]) AND d.subject = ANY(ARRAY[m.subject]) AND d.day = ANY(ARRAY[m.day])
		ORDER BY d.tenant_id, d.subject, d.day FOR NO KEY UPDATE OF d)
	UPDATE payout_days d SET paid = d.paid + l.delta FROM locked l
	WHERE d.tenant_id = ANY(ARRAY[l.tenant_id]) AND d.subject = ANY(ARRAY[l.subject]) AND d.day = ANY(ARRAY[l.day])`

// Correct changes the sums of the days on which transfers were accepted, as far as these were
// counted. It comes behind the locks of the transfers, and before those of balances.
func Correct(ctx context.Context, tx pg.Tx, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, changeSQL, pg.Columns(changes)...)
	return err
}
