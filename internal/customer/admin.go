package customer

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Refusals of what an operator asks for.
var (
	ErrTierRange  = errs.New(errs.Invalid, "tier must be 1, 2 or 3")
	errTierKYC    = errs.New(errs.Unprocessable, "tiers 2 and 3 need an approved KYC")
	errRenamed    = errs.New(errs.Conflict, "the customer has been renamed in the meantime: look again")
	errAnotherNIN = errs.New(errs.Conflict, "another NIN has been submitted in the meantime: look again")
	errSharedNIN  = errs.New(errs.Conflict, "another customer has been approved with this NIN in the meantime: look again")
	ErrChanged    = errs.New(errs.Conflict, "the customer has changed since it was shown: look at it again")
)

// Record is a customer as operators see it, whosever it is. No number is part of it but its last
// digits.
type Record struct {
	Customer
	TenantName string
	NINShared  bool // an operator approved it although its NIN had approved another customer
	SameNIN    int  // other customers of the tenant that its NIN has approved
}

const recordColumns = columns + `, t.name, c.nin_shared,
	(SELECT count(*) FROM customers o WHERE o.tenant_id = c.tenant_id AND o.nin_hash = c.nin_hash AND o.id <> c.id AND o.kyc_status = 'approved')`

func scanRecord(row pgx.CollectableRow) (r Record, err error) {
	return r, row.Scan(append(r.fields(), &r.TenantName, &r.NINShared, &r.SameNIN)...)
}

// Reviews returns a page of the customers of all tenants whose KYC waits for review, newest first.
// For operators. [page.ErrCursor].
func (s *Service) Reviews(ctx context.Context, r page.Request) ([]Record, page.Info, error) {
	list := pg.List[Record]{Name: page.Customers, ID: func(c Record) uuid.UUID { return c.ID }, Row: scanRecord}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+recordColumns+` FROM customers c JOIN tenants t ON t.id = c.tenant_id
		WHERE c.kyc_status = 'pending_review' AND c.id < @before ORDER BY c.id DESC LIMIT @limit`, nil)
}

// Show returns any tenant's customer, for operators, or [ErrNotFound].
func (s *Service) Show(ctx context.Context, id uuid.UUID) (Record, error) {
	return pg.One(ctx, s.Pool, scanRecord, ErrNotFound, `SELECT `+recordColumns+` FROM customers c JOIN tenants t ON t.id = c.tenant_id WHERE c.id = $1`, id)
}

// DecideByHand approves ([KYCApprove]) or rejects ([KYCReject]) the KYC of any tenant's customer
// that waits for review, as the operator was shown it: its name, its NIN and whether that has
// approved another customer. A rejected customer may submit again. For operators. [errRenamed],
// [errAnotherNIN], [ErrChanged], [errSharedNIN], [ErrNotPending], [ErrNotFound].
func (s *Service) DecideByHand(ctx context.Context, shown Record, event KYCEvent, by audit.By) (c Customer, err error) {
	decideOnce := func(tx pg.Tx) (err error) {
		if c, err = lockAny(ctx, tx, shown.ID); err != nil {
			return err
		}
		if c.Name != shown.Name {
			return errRenamed
		}
		if c.KYCStatus == KYCPendingReview {
			switch {
			case !sameNIN(c, shown.Customer):
				return errAnotherNIN // somebody else rejected the one that was shown
			case !c.UpdatedAt.Equal(shown.UpdatedAt):
				return ErrChanged // perhaps another NIN, of the same last digits
			}
		}
		if c, err = s.conclude(ctx, tx, c, event); err != nil {
			return err
		}
		var shared bool
		if err := tx.QueryRow(ctx, `SELECT nin_shared FROM customers WHERE id = $1`, c.ID).Scan(&shared); err != nil {
			return err
		}
		if shared && event == KYCApprove && shown.SameNIN == 0 {
			return errSharedNIN
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("customers."+string(event), target(c.ID), decided{c.Name, c.NINLast4, c.KYCTier}).Of(c.TenantID))
	}
	err = besideOthers(func() error { return pg.InTx(ctx, s.Pool, decideOnce) })
	return c, err
}

// sameNIN reports whether both show the same end of a NIN, which is all that operators see of it.
func sameNIN(a, b Customer) bool {
	if a.NINLast4 == nil || b.NINLast4 == nil {
		return a.NINLast4 == b.NINLast4
	}
	return *a.NINLast4 == *b.NINLast4
}

// SetTier sets the tier of any tenant's customer. Tiers 2 and 3 need an approved KYC
// ([errTierKYC]); 3 is for who has shown an identity document and proof of address. Tier 1 takes
// the approval back: the customer may submit again. It answers false, and records nothing, when the
// tier is that already. For operators; [ErrTierRange], [ErrNotFound].
func (s *Service) SetTier(ctx context.Context, id uuid.UUID, tier int, by audit.By) (c Customer, changed bool, err error) {
	if tier < 1 || tier > 3 {
		return c, false, ErrTierRange
	}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if c, err = lockAny(ctx, tx, id); err != nil {
			return err
		}
		from := c.KYCTier
		if changed = from != tier; !changed {
			return nil
		}
		switch {
		case tier > 1 && c.KYCStatus != KYCApproved:
			return errTierKYC
		case tier == 1 && c.KYCStatus == KYCApproved:
			c, err = s.move(ctx, tx, c, KYCRevoke)
		default:
			err = tx.QueryRow(ctx, `UPDATE customers c SET kyc_tier = $2, updated_at = $3 WHERE c.id = $1 RETURNING `+columns, id, tier, s.Clock.Now()).
				Scan(c.fields()...)
			if err == nil {
				err = s.applyTier(ctx, tx, c)
			}
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("customers.tier", target(id), struct {
			Name     string
			From, To int
		}{c.Name, from, tier}).Of(c.TenantID))
	})
	return c, changed && err == nil, err
}

// SetStatus suspends any tenant's customer or activates it again. A suspended customer gets no new
// account and may not submit KYC; its accounts stay open, their money arrives, and the tenant may
// pay it out. It answers false, and records nothing, when the status is that already. For
// operators; [ErrNotFound].
func (s *Service) SetStatus(ctx context.Context, id uuid.UUID, to Status, by audit.By) (c Customer, changed bool, err error) {
	action := map[Status]string{Active: "customers.activate", Suspended: "customers.suspend"}[to]
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if c, err = lockAny(ctx, tx, id); err != nil {
			return err
		}
		from := c.Status
		if changed = from != to; !changed {
			return nil
		}
		err := tx.QueryRow(ctx, `UPDATE customers c SET status = $2, updated_at = $3 WHERE c.id = $1 RETURNING `+columns, id, to, s.Clock.Now()).Scan(c.fields()...)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry(action, target(id), struct {
			Name     string
			From, To Status
		}{c.Name, from, to}).Of(c.TenantID))
	})
	return c, changed && err == nil, err
}

func target(id uuid.UUID) string { return "customer:" + id.String() }
