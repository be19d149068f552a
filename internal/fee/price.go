package fee

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Lead is how long before its start a price is set at the earliest: so whoever posts by it has seen
// it, and the time alone says which price holds.
const Lead = time.Minute

// Refusals of prices.
var (
	ErrOn     = errs.New(errs.Invalid, "--on must be payment, payout or vat")
	ErrFrom   = errs.New(errs.Invalid, "a price must start at least a minute from now, and not at the same time as another")
	errPrice  = errs.New(errs.Invalid, "flat, minimum and cap must not be below zero")
	ErrCap    = errs.New(errs.Invalid, "cap must not be below minimum")
	ErrListed = errs.New(errs.Invalid, "--as-listed needs --tenant, is for payments or payouts, and takes no price")
	ErrOnlyOf = errs.New(errs.Invalid, "VAT is a percentage for all tenants, and nothing else")
)

// On is what a price is charged on.
type On string

// What a price is charged on.
const (
	OnPayment On = "payment" // the gross amount of a payment
	OnPayout  On = "payout"  // the amount of a settlement
	OnVAT     On = "vat"     // the platform's own fees
)

// Price is what the platform takes, from a time on and until the next one of the same tenant
// starts. A tenant's own price goes before the list's.
type Price struct {
	ID        uuid.UUID
	TenantID  uuid.UUID // zero: the list, which holds for all tenants without a price of their own
	On        On
	Percent   money.Rate
	Flat      money.Amount
	Minimum   money.Amount
	Cap       *money.Amount // nil: none
	AsListed  bool          // the tenant has no own price from then on: the list's holds
	ValidFrom time.Time
	CreatedAt time.Time
	Actor     string
	Reason    string
}

// Of is the fee of a sum: percent and flat together, not below the minimum and not above the cap.
// It is rounded half up to the kobo. The sum is not below zero.
func (p Price) Of(sum money.Amount) money.Amount {
	fee := p.Percent.Of(sum).Add(p.Flat)
	if fee.Cmp(p.Minimum) < 0 {
		fee = p.Minimum
	}
	if p.Cap != nil && fee.Cmp(*p.Cap) > 0 {
		fee = *p.Cap
	}
	return fee
}

// Check refuses what is no price: [ErrOn], [errPrice], [ErrCap], [ErrOnlyOf], [ErrListed].
func (p Price) Check() error {
	switch {
	case p.On != OnPayment && p.On != OnPayout && p.On != OnVAT:
		return ErrOn
	case p.Flat.Sign() < 0 || p.Minimum.Sign() < 0 || p.Cap != nil && p.Cap.Sign() < 0:
		return errPrice
	case p.Cap != nil && p.Cap.Cmp(p.Minimum) < 0:
		return ErrCap
	case p.On == OnVAT && (p.TenantID != uuid.Nil || p.Flat.Sign() != 0 || p.Minimum.Sign() != 0 || p.Cap != nil):
		return ErrOnlyOf
	case p.AsListed && (p.TenantID == uuid.Nil || p.Percent.String() != "0" || p.Flat.Sign() != 0 || p.Minimum.Sign() != 0 || p.Cap != nil):
		return ErrListed
	}
	return nil
}

// Standing is the price that holds for a tenant, and the VAT on it.
type Standing struct {
	Price
	VAT money.Rate
}

// Charge is what the platform takes once.
type Charge struct {
	Fee, VAT money.Amount
}

// Whole is the fee with its VAT.
func (c Charge) Whole() money.Amount { return c.Fee.Add(c.VAT) }

// Charge is the fee of a sum, and its VAT.
func (s Standing) Charge(sum money.Amount) Charge {
	fee := s.Of(sum)
	return Charge{fee, s.VAT.Of(fee)}
}

// ChargeWithin is [Standing.Charge] of a sum of which most arrives: fee and VAT take no more than
// that.
func (s Standing) ChargeWithin(sum, most money.Amount) Charge {
	c := s.Charge(sum)
	if c.Whole().Cmp(most) > 0 {
		c.Fee = s.VAT.Within(most)
		c.VAT = most.Sub(c.Fee)
	}
	return c
}

// InForce is the id of the price that holds for a tenant at a time, as SQL on such values: the
// newest of its own, or, where that is as listed or there is none, of the list. Package pg,
// plans.go, has the reason for its form.
func InForce(tenant, on, at string) string {
	newest := func(of, id string) string {
		return `(SELECT ` + id + ` FROM prices f WHERE f.tenant_id = ANY(ARRAY[` + of + `]) AND f.charged_on = ` + on + ` AND f.valid_from <= ` + at + `
		ORDER BY f.valid_from DESC LIMIT 1)`
	}
	if tenant == List {
		return newest(List, "f.id")
	}
	return `coalesce(` + newest(tenant, "CASE WHEN NOT f.as_listed THEN f.id END") + `, ` + newest(List, "f.id") + `)`
}

// Priced reports, as SQL, whether a tenant has a price or will have one. Nothing is read for the
// others.
func Priced(tenant string) string {
	return `EXISTS (SELECT FROM prices f WHERE f.tenant_id = ANY(ARRAY[` + tenant + `, ` + List + `]))`
}

// List is the tenant of the prices that hold for all, as SQL.
const List = `'00000000-0000-0000-0000-000000000000'::uuid`

var standingSQL = `
		SELECT t.id, p.id, p.tenant_id, p.percent, p.flat, p.minimum, p.cap, p.valid_from, coalesce(v.percent, 0)
		FROM unnest($1::uuid[]) AS t (id) JOIN prices p ON p.id = ` + InForce("t.id", "$2", "$3") + `
		LEFT JOIN prices v ON v.id = ` + InForce(List, "'vat'", "$3")

// Read reads the prices that hold for tenants at a time; a tenant may be named several times. One
// without a price is not in it.
func Read(ctx context.Context, q pg.Querier, at time.Time, on On, tenants []uuid.UUID) (map[uuid.UUID]Standing, error) {
	out := map[uuid.UUID]Standing{}
	if len(tenants) == 0 {
		return out, nil
	}
	slices.SortFunc(tenants, pg.CompareIDs)
	rows := pg.Rows(ctx, q, standingSQL, slices.Compact(tenants), on, at)
	var tenant uuid.UUID
	var s Standing
	_, err := pgx.ForEachRow(rows, []any{&tenant, &s.ID, &s.TenantID, &s.Percent, &s.Flat, &s.Minimum, &s.Cap, &s.ValidFrom, &s.VAT}, func() error {
		s.On = on
		out[tenant] = s
		return nil
	})
	return out, err
}

// Prices has the use cases of prices.
type Prices struct {
	Pool  *pg.Pool
	Clock clock.Clock
}

// Set sets a price: of a tenant, or of the list. A zero start is the earliest one, [Lead] from now.
// What was posted or accepted before it starts stays as it was. For operators. [ErrOn], [ErrFrom],
// [errPrice], [ErrCap], [ErrOnlyOf], [ErrListed].
func (s *Prices) Set(ctx context.Context, p Price, by audit.By) (Price, error) {
	if err := p.Check(); err != nil {
		return p, err
	}
	p.ID, p.Actor, p.Reason = uuid.Must(uuid.NewV7()), by.Actor, by.Reason
	return p, pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		p.CreatedAt = s.Clock.Now()
		if p.ValidFrom.IsZero() {
			p.ValidFrom = p.CreatedAt.Add(Lead)
		}
		if p.ValidFrom.Before(p.CreatedAt.Add(Lead)) {
			return ErrFrom
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, cap, as_listed, valid_from, created_at, actor, reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (tenant_id, charged_on, valid_from) DO NOTHING`,
			p.ID, p.TenantID, p.On, p.Percent, p.Flat, p.Minimum, p.Cap, p.AsListed, p.ValidFrom, p.CreatedAt, p.Actor, p.Reason)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrFrom
		}
		if err != nil {
			return err
		}
		target := "prices"
		if p.TenantID != uuid.Nil {
			target = "tenant:" + p.TenantID.String()
		}
		return audit.Write(ctx, tx, p.CreatedAt, by.Entry("prices.set", target, p))
	})
}

// List is the prices as they were set, the latest start first: all for uuid.Nil, else those of the
// tenant and of the list. For operators.
func (s *Prices) List(ctx context.Context, tenantID uuid.UUID) ([]Price, error) {
	return pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Price], `
		SELECT id, tenant_id, charged_on, percent, flat, minimum, cap, as_listed, valid_from, created_at, actor, reason FROM prices
		WHERE $1 = `+List+` OR tenant_id = ANY(ARRAY[$1, `+List+`]) ORDER BY charged_on, tenant_id DESC, valid_from DESC`, tenantID)
}

// Standing is the prices that hold for a tenant now; nil: none. For operators.
func (s *Prices) Standing(ctx context.Context, tenantID uuid.UUID) (payment, payout *Standing, err error) {
	for on, to := range map[On]**Standing{OnPayment: &payment, OnPayout: &payout} {
		all, err := Read(ctx, s.Pool, s.Clock.Now(), on, []uuid.UUID{tenantID})
		if err != nil {
			return nil, nil, err
		}
		if p, ok := all[tenantID]; ok {
			*to = &p
		}
	}
	return payment, payout, nil
}

// Platform is what the platform takes of a tenant's sum; nil: nothing.
type Platform struct {
	Payment *Quoted `json:"payment"` // of a payment of which the sum arrives
	Payout  *Quoted `json:"payout"`  // of a settlement of the sum
}

// Quoted is a price that holds, and what it makes of a sum.
type Quoted struct {
	Percent    money.Rate    `json:"percent"`
	Flat       money.Amount  `json:"flat"`
	Minimum    money.Amount  `json:"minimum"`
	Cap        *money.Amount `json:"cap"`
	ValidFrom  time.Time     `json:"valid_from"`
	VATPercent money.Rate    `json:"vat_percent"`
	Fee        money.Amount  `json:"fee"`
	VAT        money.Amount  `json:"vat"`
}

// Quote is what the platform takes of a tenant, beside the bank's fee; nil without a price.
func (s *Prices) Quote(ctx context.Context, tenantID uuid.UUID, q Quote) (*Platform, error) {
	var out Platform
	for _, x := range []struct {
		on   On
		into **Quoted
	}{{OnPayment, &out.Payment}, {OnPayout, &out.Payout}} {
		all, err := Read(ctx, s.Pool, s.Clock.Now(), x.on, []uuid.UUID{tenantID})
		if err != nil {
			return nil, err
		}
		p, ok := all[tenantID]
		if !ok {
			continue
		}
		c := p.Charge(q.Receive)
		if x.on == OnPayment {
			c = p.ChargeWithin(q.Send, q.Receive)
		}
		*x.into = &Quoted{p.Percent, p.Flat, p.Minimum, p.Cap, p.ValidFrom.UTC(), p.VAT, c.Fee, c.VAT}
	}
	if out == (Platform{}) {
		return nil, nil
	}
	return &out, nil
}
