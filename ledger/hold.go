package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// HoldStatus is a hold's status.
type HoldStatus string

// The statuses.
const (
	HoldOpen     HoldStatus = "open"
	HoldReleased HoldStatus = "released"
	HoldExpired  HoldStatus = "expired" // its until has passed
)

// HoldSource says what placed a hold.
type HoldSource string

// The sources.
const (
	HeldByTenant HoldSource = "tenant"
	HeldByLimit  HoldSource = "limit" // of a customer's tier (deposit.go)
	// of an account's policy (policy.go): until the tenant releases it, or until it goes back
	HeldByPolicy  HoldSource = "policy"
	HeldForRefund HoldSource = "refund"
	// of a part of a payment that the bank may have taken back (split.go)
	HeldByRecall HoldSource = "recall"
)

// HoldEvent is what moves a hold.
type HoldEvent string

// The events.
const (
	EventHoldPlace   HoldEvent = "place"
	EventHoldRelease HoldEvent = "release"
	EventHoldExpire  HoldEvent = "expire"
)

// HoldTransitions is the hold's state machine.
var HoldTransitions = fsm.New("Hold",
	fsm.Row[HoldStatus, HoldEvent]{From: fsm.Start, Event: EventHoldPlace, To: HoldOpen},
	fsm.Row[HoldStatus, HoldEvent]{From: HoldOpen, Event: EventHoldRelease, To: HoldReleased},
	fsm.Row[HoldStatus, HoldEvent]{From: HoldOpen, Event: EventHoldExpire, To: HoldExpired},
)

// Refusals of holds.
var (
	ErrHoldNotFound = errs.New(errs.NotFound, "hold not found")
	ErrHoldEnded    = errs.New(errs.Unprocessable, "hold is not open")
	ErrHoldOfLimit  = errs.New(errs.Unprocessable, "the hold belongs to a limit: only a higher tier of the customer releases it")
	ErrHoldOfRecall = errs.New(errs.Unprocessable, "the hold belongs to a recall: only the bank's record ends it")
	ErrHoldStatus   = errs.New(errs.Invalid, "status must be open, released or expired")
	ErrManyHolds    = errs.New(errs.Unprocessable, fmt.Sprintf("the account has %d open holds with until: release one first", maxEnding))
)

// maxEnding is how many open holds of an account may end by themselves. One statement ends them, in
// one transaction with other tenants' settlements: of a million it would take longer than a
// statement may last, each time.
const maxEnding = 10_000

// Hold is money on an account that a tenant has set aside, that is above a limit, or that the
// account's policy holds. It stays in the balance.
type Hold struct {
	ID         uuid.UUID    `json:"id"`
	AccountRef string       `json:"accountRef"`
	AccountID  uuid.UUID    `json:"accountId"`
	Amount     money.Amount `json:"amount"`
	Currency   string       `json:"currency"`
	Reason     string       `json:"reason"`
	Source     HoldSource   `json:"source"`
	EntryID    *uuid.UUID   `json:"entryId"` // the credit that it holds, or a part of; null: a tenant's own
	Status     HoldStatus   `json:"status"`
	Until      *time.Time   `json:"until"` // null: until it is released
	CreatedAt  time.Time    `json:"createdAt"`
	EndedAt    *time.Time   `json:"endedAt"`
}

// OnHold is, as SQL, the sum of the holds that stand at the time now (SQL too) on an account, whose
// row of ledger_balances is b. The row has the sum of the open holds; their table is read only if
// one of them has passed its until. Both must be read in one snapshot: a caller that has waited for
// the row's lock calls endHolds instead.
func OnHold(now string) string {
	return `CASE WHEN b.held IS NULL THEN 0 WHEN b.held_until <= ` + now + ` THEN b.held - (
			SELECT coalesce(sum(h.amount), 0) FROM holds h WHERE h.account_id = b.account_id AND h.status = 'open' AND h.until <= ` + now + `) ELSE b.held END`
}

// NewHold asks for a hold.
type NewHold struct {
	AccountID   uuid.UUID
	Amount      money.Amount // above zero
	Reason      string
	Until       *time.Time // after the time of placing; nil: until it is released
	Provisional bool       // unconfirmed money may be held, as settlements may take it
}

// PlaceHold holds money of an account if that much is available. It does so under the account's
// lock, so that simultaneous holds and settlements succeed only as far as the account covers them
// together. [ErrInsufficientFunds]; [ErrManyHolds] for one more that ends by itself.
func PlaceHold(ctx context.Context, tx pg.Tx, now time.Time, n NewHold) (Hold, error) {
	id := uuid.Must(uuid.NewV7())
	b, err := lockTotals(ctx, tx, []uuid.UUID{n.AccountID})
	if err == nil {
		err = b.endHolds(ctx, tx, now)
	}
	if err != nil {
		return Hold{}, err
	}
	t, err := b.of(n.AccountID)
	if err != nil {
		return Hold{}, err
	}
	if n.Until != nil {
		var many bool
		err := tx.QueryRow(ctx, `SELECT count(*) >= $2 FROM (SELECT FROM holds WHERE account_id = $1 AND status = 'open' AND until IS NOT NULL LIMIT $2) h`, n.AccountID, maxEnding).Scan(&many)
		if err != nil {
			return Hold{}, err
		}
		if many {
			return Hold{}, ErrManyHolds
		}
	}
	tag, err := tx.Exec(ctx, placeSQL, n.AccountID, n.Amount, n.Until, n.Provisional, now)
	if err != nil {
		return Hold{}, err
	}
	if tag.RowsAffected() == 0 {
		return Hold{}, ErrInsufficientFunds
	}
	if _, err := tx.Exec(ctx, `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		id, t.TenantID, n.AccountID, n.Amount, n.Reason, HoldOpen, now, n.Until); err != nil {
		return Hold{}, err
	}
	return FindHold(ctx, tx, now, t.TenantID, id)
}

var placeSQL = `
		UPDATE ledger_balances b SET held = coalesce(b.held, 0) + $2, held_until = least(b.held_until, $3)
		WHERE b.account_id = $1 AND ` + Available("$4", "$5") + ` >= $2`

// ReleaseHold ends an open hold of the tenant's own. Of simultaneous callers, one succeeds.
// [ErrHoldNotFound], [ErrHoldEnded], [ErrHoldOfLimit].
func ReleaseHold(ctx context.Context, tx pg.Tx, now time.Time, tenantID, id uuid.UUID) (Hold, error) {
	return endHold(ctx, tx, now, tenantID, id, false)
}

// ReleaseAnyHold is [ReleaseHold] for operators: for holds of limits too, and for any tenant.
func ReleaseAnyHold(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID) (Hold, error) {
	tenantID, err := ownerOfHold(ctx, tx, id)
	if err != nil {
		return Hold{}, err
	}
	return endHold(ctx, tx, now, tenantID, id, true)
}

// FindAnyHold is [FindHold] for operators: for any tenant.
func FindAnyHold(ctx context.Context, q pg.Querier, now time.Time, id uuid.UUID) (Hold, error) {
	tenantID, err := ownerOfHold(ctx, q, id)
	if err != nil {
		return Hold{}, err
	}
	return FindHold(ctx, q, now, tenantID, id)
}

func ownerOfHold(ctx context.Context, q pg.Querier, id uuid.UUID) (uuid.UUID, error) {
	return pg.One(ctx, q, pgx.RowTo[uuid.UUID], ErrHoldNotFound, `SELECT tenant_id FROM holds WHERE id = $1`, id)
}

func endHold(ctx context.Context, tx pg.Tx, now time.Time, tenantID, id uuid.UUID, byHand bool) (Hold, error) {
	h, err := FindHold(ctx, tx, now, tenantID, id)
	if err == nil && h.Source == HeldByLimit && !byHand {
		err = ErrHoldOfLimit
	}
	if err == nil && h.Source == HeldByRecall {
		err = ErrHoldOfRecall
	}
	if err != nil {
		return h, err
	}
	if _, err := lockTotals(ctx, tx, []uuid.UUID{h.AccountID}); err != nil {
		return h, err
	}
	// another may have ended it while this one waited for the lock
	if h, err = FindHold(ctx, tx, now, tenantID, id); err == nil && h.Status != HoldOpen {
		err = ErrHoldEnded
	}
	if err != nil {
		return h, err
	}
	if _, err := tx.Exec(ctx, endHoldsSQL, []uuid.UUID{h.AccountID}, now, id); err != nil {
		return h, err
	}
	switch h.Source {
	case HeldByPolicy, HeldForRefund:
		err = arriveReleased(ctx, tx, now, h)
	case HeldByLimit:
		err = allowReleased(ctx, tx, now, h)
	}
	if err != nil {
		return h, err
	}
	return FindHold(ctx, tx, now, tenantID, id)
}

// endHoldsSQL ends the hold $3, and the accounts' open holds whose until is at or before $2. It
// finds them by themselves: an account may have any number of other open holds. For the form of the
// conditions see package pg, plans.go.
const endHoldsSQL = `
		WITH ended AS (
			UPDATE holds SET status = CASE WHEN until <= $2 THEN 'expired' ELSE 'released' END, ended_at = CASE WHEN until <= $2 THEN until ELSE $2 END
			WHERE id = ANY(ARRAY(SELECT id FROM holds WHERE account_id = ANY($1) AND status = 'open' AND until <= $2 UNION ALL SELECT $3::uuid))
				AND account_id = ANY($1) AND CASE status WHEN 'open' THEN true ELSE false END RETURNING account_id, amount, source, entry_id)
		UPDATE ledger_balances b SET held = b.held - e.amount, held_over = b.held_over - e.over, held_provisional = b.held_provisional - e.provisional, held_until = (
			SELECT min(h.until) FROM holds h WHERE h.account_id = b.account_id AND h.status = 'open' AND h.until > $2 AND h.id <> $3)
		FROM (
			SELECT h.account_id, sum(h.amount) AS amount, coalesce(sum(h.amount) FILTER (WHERE h.source <> 'tenant'), 0) AS over,
				coalesce(sum(h.amount) FILTER (WHERE c.status = 'provisional'), 0) AS provisional
			FROM ended h LEFT JOIN ledger_entries c ON c.id = ANY(ARRAY[h.entry_id]) GROUP BY 1) e WHERE b.account_id = e.account_id
		RETURNING b.account_id, b.held, b.held_until`

// endHolds ends the holds of locked accounts whose until has passed. If there are none, it runs no
// statement.
func (b book) endHolds(ctx context.Context, tx pg.Tx, now time.Time) error {
	var due []uuid.UUID
	for id, t := range b.totals {
		if t.HeldUntil != nil && !t.HeldUntil.After(now) {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return nil
	}
	rows := pg.Rows(ctx, tx, endHoldsSQL, due, now, uuid.Nil)
	var id uuid.UUID
	var held money.Amount
	var until *time.Time
	_, err := pgx.ForEachRow(rows, []any{&id, &held, &until}, func() error {
		b.totals[id].Held, b.totals[id].HeldUntil = held, until
		return nil
	})
	return err
}

// holdColumns are those of a [Hold] h of an account a, at the time @now.
const (
	holdColumns = `h.id, a.account_ref, h.account_id, h.amount, 'NGN' AS currency, h.reason, h.source, h.entry_id, ` + holdStatusSQL + ` AS status, h.until, h.created_at,
		coalesce(h.ended_at, CASE WHEN h.until <= @now THEN h.until END) AS ended_at`
	holdStatusSQL = `CASE WHEN h.status = 'open' AND h.until <= @now THEN 'expired' ELSE h.status END`
)

// FindHold reads a tenant's hold as it is at the time now. [ErrHoldNotFound].
func FindHold(ctx context.Context, q pg.Querier, now time.Time, tenantID, id uuid.UUID) (Hold, error) {
	return pg.One(ctx, q, toHold, ErrHoldNotFound, `
		SELECT `+holdColumns+` FROM holds h JOIN accounts a ON a.id = h.account_id WHERE h.id = @id AND h.tenant_id = @tenant`,
		pgx.NamedArgs{"id": id, "tenant": tenantID, "now": now})
}

// EntryHold reads what holds a tenant's credit, or a part of it; nil: nothing does.
func EntryHold(ctx context.Context, q pg.Querier, now time.Time, tenantID, entry uuid.UUID) (*Hold, error) {
	found, err := pg.Collect(ctx, q, toHold, `
		SELECT `+holdColumns+` FROM holds h JOIN accounts a ON a.id = h.account_id WHERE h.entry_id = @entry AND h.tenant_id = @tenant AND h.status = 'open'`,
		pgx.NamedArgs{"entry": entry, "tenant": tenantID, "now": now})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// ReadHolds reads a page of an account's holds as they are at the time now, newest first, of one
// status or, if it is empty, of all. [ErrHoldStatus], or [page.ErrCursor].
func ReadHolds(ctx context.Context, q pg.Querier, now time.Time, tenantID, account uuid.UUID, status HoldStatus, r page.Request) ([]Hold, page.Info, error) {
	if !HoldTransitions.Knows(status) {
		return nil, page.Info{}, ErrHoldStatus
	}
	list := pg.List[Hold]{Name: page.Holds, ID: func(h Hold) uuid.UUID { return h.ID }, Row: toHold}
	return list.Filtered(ctx, q, r, `holds WHERE tenant_id = @tenant AND account_id = @account`, `
		SELECT `+holdColumns+` FROM holds h JOIN accounts a ON a.id = h.account_id
		WHERE h.tenant_id = @tenant AND h.account_id = @account AND h.id < @before AND h.id >= @floor AND (@status = '' OR `+holdStatusSQL+` = @status)
		ORDER BY h.id DESC LIMIT @limit`, pgx.NamedArgs{"tenant": tenantID, "account": account, "status": string(status), "now": now})
}

func toHold(r pgx.CollectableRow) (Hold, error) {
	h, err := pgx.RowToStructByPos[Hold](r)
	h.CreatedAt = h.CreatedAt.UTC()
	for _, at := range []*time.Time{h.Until, h.EndedAt} {
		if at != nil {
			*at = at.UTC()
		}
	}
	return h, err
}

// holdsSQL compares the sums of holds in the balances with the open holds.
const holdsSQL = `
		WITH h AS (
			SELECT h.account_id, sum(h.amount) AS held, min(h.until) AS until, coalesce(sum(h.amount) FILTER (WHERE h.source <> 'tenant'), 0) AS over,
				coalesce(sum(h.amount) FILTER (WHERE e.status = 'provisional'), 0) AS provisional
			FROM holds h LEFT JOIN ledger_entries e ON e.id = h.entry_id WHERE h.status = 'open' GROUP BY 1)
		SELECT coalesce(b.account_id, h.account_id)::text, format('%s is held (%s of payments, %s of it provisional), the first end is %s; the open holds say %s (%s, %s) and %s',
			coalesce(b.held, 0), coalesce(b.held_over, 0), coalesce(b.held_provisional, 0), coalesce(b.held_until::text, 'none'),
			coalesce(h.held, 0), coalesce(h.over, 0), coalesce(h.provisional, 0), coalesce(h.until::text, 'none'))
		FROM ledger_balances b FULL JOIN h USING (account_id)
		WHERE (coalesce(b.held, 0), coalesce(b.held_over, 0), coalesce(b.held_provisional, 0)) <> (coalesce(h.held, 0), coalesce(h.over, 0), coalesce(h.provisional, 0))
			OR b.held_until IS DISTINCT FROM h.until
		UNION ALL
		SELECT h.id::text, format('held of a payment; its credit is %s of %s', coalesce(e.status, 'missing'), e.amount)
		FROM holds h LEFT JOIN ledger_entries e ON e.id = h.entry_id
		WHERE h.status = 'open' AND h.source <> 'tenant' AND (e.id IS NULL OR e.status NOT IN ('provisional', 'confirmed') OR e.amount < h.amount OR e.account_id <> h.account_id)`
