// Package limit owns the limits of tenants: data with a start date, set by operators, off by
// default.
//
// Limits of tiers, of what comes in, are set and shown here; package ledger holds what is above
// them.
//
// What always holds: each settlement of a tenant that has limits is counted, in the transaction
// that accepts it, in the sums of its day in Lagos, of its account and of its tenant; one that ends
// without being paid leaves them in the transaction of its end. A settlement is accepted only if
// the sums, under their locks, leave room for it. Rows of limits are never changed: a later one
// takes over at its start. Limits that are set for now stand once they are committed, whatever the
// clock says of whoever goes by them. (docs/decisions.md, "Limits".)
package limit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Refusals of limits.
var (
	ErrStarts   = errs.New(errs.Invalid, "limits must not start in the past, nor at the same time as others")
	ErrTier     = errs.New(errs.Invalid, "tier must be 1, 2 or 3")
	ErrNegative = errs.New(errs.Invalid, "a limit must not be below zero")
)

// Payouts are the limits of what a tenant pays out; nil: none. A day is one in Lagos.
type Payouts struct {
	MaxTransfer   *money.Amount `json:"maxTransfer"`   // of one settlement
	MaxAccountDay *money.Amount `json:"maxAccountDay"` // of all of an account's that are accepted on a day
	MaxTenantDay  *money.Amount `json:"maxTenantDay"`  // of all of the tenant's
}

// Tier is the limits of what comes in to an account of a customer of a tier; nil: none. What is
// above is posted and held (package ledger).
type Tier struct {
	Tier       int           `json:"tier"`       // 1, 2, 3
	MaxDeposit *money.Amount `json:"maxDeposit"` // of one payment, after the bank's fee
	MaxDay     *money.Amount `json:"maxDay"`     // of the account's payments of a day
	MaxBalance *money.Amount `json:"maxBalance"` // without what limits hold
}

// Set is limits as they were set: of payouts, or of a tier.
type Set struct {
	Payouts
	Tier      *Tier `json:",omitempty"`
	StartsAt  time.Time
	CreatedAt time.Time
	Actor     string
	Reason    string
}

// Begun reports whether the limits have started at a time.
func (s Set) Begun(at time.Time) bool { return !s.StartsAt.After(at) || s.StartsAt.Equal(s.CreatedAt) }

// Service has the use cases.
type Service struct {
	Pool  *pg.Pool
	Clock clock.Clock
}

// SetPayouts sets the limits of what a tenant pays out from a time on, until the next ones start;
// the zero time is now. The day's sums count what is accepted from the first limits of the tenant
// on, whether these have started or not. For operators. [ErrStarts], [ErrNegative];
// freeze.ErrAccepting: they are set, but payouts that were under way may be accepted, and left
// uncounted, without them.
func (s *Service) SetPayouts(ctx context.Context, tenantID uuid.UUID, starts time.Time, p Payouts, by audit.By) (Set, error) {
	set, err := s.set(ctx, tenantID, starts, Set{Payouts: p}, by, []*money.Amount{p.MaxTransfer, p.MaxAccountDay, p.MaxTenantDay}, `
		INSERT INTO payout_limits (tenant_id, starts_at, created_at, actor, reason, max_transfer, max_account_day, max_tenant_day)
		SELECT $1, $2, $3, $4, $5, $6::numeric, $7::numeric, $8::numeric WHERE NOT EXISTS (SELECT FROM payout_limits WHERE tenant_id = $1 AND starts_at = $2)`)
	if err == nil {
		err = freeze.AwaitAcceptances(ctx, s.Pool)
	}
	return set, err
}

// SetTier sets the limits of what comes in to accounts of customers of a tier, from a time on and
// until the next ones start; the zero time is now. It holds and releases nothing that has come
// already. For operators. [ErrStarts], [ErrNegative], [ErrTier].
func (s *Service) SetTier(ctx context.Context, tenantID uuid.UUID, starts time.Time, x Tier, by audit.By) (Set, error) {
	if x.Tier < 1 || x.Tier > 3 {
		return Set{}, ErrTier
	}
	return s.set(ctx, tenantID, starts, Set{Tier: &x}, by, []*money.Amount{x.MaxDeposit, x.MaxDay, x.MaxBalance}, `
		INSERT INTO tier_limits (tenant_id, starts_at, created_at, actor, reason, max_deposit, max_day, max_balance, tier)
		SELECT $1, $2, $3, $4, $5, $6::numeric, $7::numeric, $8::numeric, $9::integer
		WHERE NOT EXISTS (SELECT FROM tier_limits WHERE tenant_id = $1 AND tier = $9 AND starts_at = $2)`, x.Tier)
}

// nextSQL is when limits of the tenant $1 start that are set for now, $2: after all that were set
// for now before them, by clocks that may be ahead.
const nextSQL = `
	SELECT greatest($2, max(starts_at) + interval '1 microsecond') FROM (
		SELECT starts_at, created_at FROM payout_limits WHERE tenant_id = $1 UNION ALL SELECT starts_at, created_at FROM tier_limits WHERE tenant_id = $1) l
	WHERE starts_at = created_at`

// set stores limits by sql, which inserts no row where others start at that time.
func (s *Service) set(ctx context.Context, tenantID uuid.UUID, starts time.Time, set Set, by audit.By, values []*money.Amount, sql string, more ...any) (Set, error) {
	for _, v := range values {
		if v != nil && v.Sign() < 0 {
			return set, ErrNegative
		}
	}
	set.Actor, set.Reason = by.Actor, by.Reason
	return set, pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if set.StartsAt, set.CreatedAt = starts, now; !starts.IsZero() && starts.Before(now) {
			return ErrStarts
		}
		// the lock keeps two from being set at once for one time
		if _, err := tx.Exec(ctx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, tenantID); err != nil {
			return err
		}
		if starts.IsZero() {
			if err := tx.QueryRow(ctx, nextSQL, tenantID, now).Scan(&set.StartsAt); err != nil {
				return err
			}
			set.StartsAt = set.StartsAt.UTC()
			set.CreatedAt = set.StartsAt
		}
		tag, err := tx.Exec(ctx, sql, append([]any{tenantID, set.StartsAt, set.CreatedAt, by.Actor, by.Reason, values[0], values[1], values[2]}, more...)...)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrStarts
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.limits", "tenant:"+tenantID.String(), set))
	})
}

// Sets are the limits of a tenant as they were set, those of payouts first, the latest start first.
// For operators.
func (s *Service) Sets(ctx context.Context, tenantID uuid.UUID) ([]Set, error) {
	return pg.Collect(ctx, s.Pool, func(r pgx.CollectableRow) (x Set, err error) {
		var tier int
		var values [3]*money.Amount
		err = r.Scan(&tier, &values[0], &values[1], &values[2], &x.StartsAt, &x.CreatedAt, &x.Actor, &x.Reason)
		if tier == 0 {
			x.Payouts = Payouts{values[0], values[1], values[2]}
		} else {
			x.Tier = &Tier{tier, values[0], values[1], values[2]}
		}
		return x, err
	}, `
		SELECT 0, max_transfer, max_account_day, max_tenant_day, starts_at, created_at, actor, reason FROM payout_limits WHERE tenant_id = $1
		UNION ALL SELECT tier, max_deposit, max_day, max_balance, starts_at, created_at, actor, reason FROM tier_limits WHERE tenant_id = $1
		ORDER BY 1, 5 DESC`, tenantID)
}

// Standing is what a tenant is shown: its limits, and what is used of them today.
type Standing struct {
	Day     string          `json:"day"` // in Lagos, as 2026-01-30
	Payouts PayoutsStanding `json:"payouts"`
	Tiers   []Tier          `json:"tiers"` // those that have limits
}

// PayoutsStanding is the limits of payouts with the day's use.
type PayoutsStanding struct {
	Payouts
	Today money.Amount  `json:"today"` // the settlements of all accounts that count today
	Left  *money.Amount `json:"left"`  // of maxTenantDay; nil: no limit
	// settlements are counted: the tenant has limits, or approvals that go by the day's sum
	Counted bool `json:"-"`
}

// Standing reads what a tenant is shown.
func (s *Service) Standing(ctx context.Context, tenantID uuid.UUID) (Standing, error) {
	now := s.Clock.Now()
	st := Standing{Day: clock.Day(now)}
	err := s.Pool.QueryRow(ctx, `
		SELECT l.max_transfer, l.max_account_day, l.max_tenant_day, coalesce((SELECT paid FROM payout_days WHERE tenant_id = $1 AND subject = $1 AND day = $3::text::date), 0),
			EXISTS (SELECT FROM payout_limits WHERE tenant_id = $1) OR EXISTS (SELECT FROM tenants WHERE id = $1 AND approve_day_above IS NOT NULL)
		FROM (SELECT) one LEFT JOIN LATERAL (`+standingSQL+`) l ON true`, tenantID, now, st.Day).
		Scan(&st.Payouts.MaxTransfer, &st.Payouts.MaxAccountDay, &st.Payouts.MaxTenantDay, &st.Payouts.Today, &st.Payouts.Counted)
	if err != nil {
		return st, err
	}
	if most := st.Payouts.MaxTenantDay; most != nil {
		st.Payouts.Left = new(most.Left(st.Payouts.Today))
	}
	st.Tiers, err = pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Tier], `
		SELECT * FROM (
			SELECT DISTINCT ON (tier) tier, max_deposit, max_day, max_balance FROM tier_limits WHERE tenant_id = $1 AND `+begun+` ORDER BY tier, starts_at DESC) t
		WHERE coalesce(max_deposit, max_day, max_balance) IS NOT NULL ORDER BY tier`, tenantID, now)
	return st, err
}

// begun is, as SQL, the condition on limits that they have started at the time $2. Those that were
// set for now have, also by a clock that is behind that of whoever set them.
const begun = `(starts_at <= $2 OR starts_at = created_at)`

// standingSQL is the limits that stand of the tenant $1 at the time $2.
const standingSQL = `SELECT * FROM payout_limits WHERE tenant_id = $1 AND ` + begun + ` ORDER BY starts_at DESC LIMIT 1`
